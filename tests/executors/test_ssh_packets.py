"""Reading that is lent: by whom the socket is read changes nothing of what arrives, in what order, or how it ends."""

from __future__ import annotations

import inspect
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import paramiko
import pytest
from paramiko.packet import Packetizer

from fabric.executors.ssh_packets import Packets, channel_lead
from fabric.executors.ssh_transport import Transport

LIMIT_S = 20.0


class Server(paramiko.ServerInterface):
    """Lets everybody in, and remembers the channel on which something is to be executed."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Whoever it is."""
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        """By key."""
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Any number of sessions."""
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Whatever it is."""
        self.asked.set()
        return True


@dataclass
class Line:
    """A session of ours with paramiko's server, and one channel of it from both sides."""

    client: Transport
    server: paramiko.Transport
    here: paramiko.Channel
    there: paramiko.Channel
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def packets(self) -> Packets:
        """What is tested."""
        return self.client.packetizer

    def lend(self) -> None:
        """Until somebody else reads; that begins with the next message."""
        self.packets.lend(self.begun.release)
        self.there.sendall(b"first")
        assert self.here.recv(5) == b"first"
        assert self.begun.acquire(timeout=LIMIT_S)

    def told(self, data: bytes) -> bytes:
        """What is read while the server says *data*; so much does not fit into the socket at once."""
        thread = threading.Thread(target=self.there.sendall, args=(data,), daemon=True)
        thread.start()
        said = self.read(len(data))
        thread.join(LIMIT_S)
        return said

    def read(self, count: int) -> bytes:
        """So much, from wherever it arrives."""
        data, lead = b"", channel_lead(self.here)

        def look() -> bool:
            nonlocal data
            data += self.packets.read_lent(lead)[0]
            if self.here.recv_ready():
                data += self.here.recv(1 << 20)
            return len(data) >= count

        until(look)
        return data


def until(true: Callable[[], bool]) -> None:
    """Look until it is so."""
    until_s, pause = time.monotonic() + LIMIT_S, threading.Event()
    while not true():
        assert time.monotonic() < until_s, "it never came"
        pause.wait(0.002)


@pytest.fixture(params=["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"])
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    """Connected, logged in, and executing."""
    ours, theirs = socket.socketpair()
    client, server = Transport(ours), paramiko.Transport(theirs)
    server.add_server_key(paramiko.ECDSAKey.generate())
    client.get_security_options().ciphers = (request.param,)
    interface = Server()
    server.start_server(event=threading.Event(), server=interface)
    try:
        client.begin_client(timeout_s=LIMIT_S)
        assert client.log_in("somebody", paramiko.ECDSAKey.generate()) == []
        here = client.open_session(timeout=LIMIT_S)
        there = server.accept(LIMIT_S)
        assert there is not None
        here.exec_command("agent")
        assert interface.asked.wait(LIMIT_S)
        yield Line(client, server, here, there)
    finally:
        for one in (client, server):
            one.close()
            one.sock.close()
        client.join(LIMIT_S)
        assert not client.is_alive()


@pytest.mark.parametrize(
    "name", ["_trigger_rekey", "_Packetizer__sequence_number_in", "_Packetizer__sequence_number_out"]
)
def test_paramiko_still_has_what_is_used(name: str) -> None:
    """These are private to it."""
    assert inspect.getsource(Packetizer).count(name.removeprefix("_Packetizer")) >= 2


def test_data_is_read_by_who_was_lent_the_reading(line: Line) -> None:
    """And paramiko's channel sees none of it."""
    line.lend()
    assert line.told(b"x" * 100_000) == b"x" * 100_000
    assert line.packets.lent
    assert not line.here.recv_ready()


def test_what_is_unusual_goes_to_the_session_and_the_reading_is_lent_anew(line: Line) -> None:
    """Stderr between two pieces of stdout; all of it arrives, and in its order."""
    line.lend()
    line.there.sendall(b"one")
    line.there.sendall_stderr(b"complaint")
    line.there.sendall(b"two")
    assert line.read(6) == b"onetwo"
    until(lambda: line.packets.lent)
    assert line.here.recv_stderr(100) == b"complaint"


def test_another_channel_can_be_opened_meanwhile(line: Line) -> None:
    """The answer to that is for the session's thread; somebody reads all the time."""
    line.lend()
    opened: list[paramiko.Channel] = []
    thread = threading.Thread(target=lambda: opened.append(line.client.open_session(timeout=LIMIT_S)))
    thread.start()
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and bool(opened))
    thread.join(LIMIT_S)
    assert not opened[0].closed


@pytest.mark.parametrize("who", ["server", "client"])
def test_keys_are_exchanged_anew_while_the_reading_is_lent(line: Line, who: str) -> None:
    """What is sent before, meanwhile and afterwards arrives on both sides."""
    line.lend()
    line.there.sendall(b"a")
    assert line.read(1) == b"a"
    side = line.server if who == "server" else line.client
    before = line.packets._in
    thread = threading.Thread(target=side.renegotiate_keys)
    thread.start()
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and line.packets._in is not before)
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    line.there.sendall(b"b")
    assert line.read(1) == b"b"
    line.here.sendall(b"c")
    assert line.there.recv(1) == b"c"


def test_keys_are_asked_for_when_they_were_used_enough(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes that were read for somebody else, too."""
    line.lend()
    before = line.packets._in
    monkeypatch.setattr(Packets, "REKEY_BYTES", 100_000)
    assert line.told(b"x" * 150_000) == b"x" * 150_000
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and line.packets._in is not before)
    line.there.sendall(b"y")
    assert line.read(1) == b"y"


def test_a_session_whose_reading_is_lent_ends_with_its_socket(line: Line) -> None:
    """The end is found by who reads, and dealt with by the session's thread."""
    line.lend()
    line.server.close()
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and not line.client.is_active())
    assert line.packets.read_lent(channel_lead(line.here)) == (b"", False)


def test_a_forged_packet_ends_the_session(line: Line) -> None:
    """Whoever reads it."""
    line.lend()
    line.server.sock.send(bytes((0, 0, 0, 32)) + bytes(48))
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and not line.client.is_active())
    assert type(line.client.get_exception()).__name__ == "InvalidTag"


def test_who_closes_wakes_a_session_whose_reading_is_lent(line: Line) -> None:
    """Its thread does not wait until it would look up by itself."""
    line.lend()
    line.client.close()
    line.client.join(LIMIT_S)
    assert not line.client.is_alive()


def test_reading_that_is_reclaimed_goes_on(line: Line) -> None:
    """Nobody but the session's thread reads, and nothing is lost."""
    line.lend()
    line.packets.reclaim()
    line.there.sendall(b"again")
    line.here.settimeout(LIMIT_S)
    assert line.here.recv(5) == b"again"
    assert not line.packets.lent


def test_a_full_socket_is_waited_for_while_the_reading_is_lent(line: Line) -> None:
    """The socket never waits then, so the sender has to."""
    line.lend()
    line.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    received = bytearray()

    def receive() -> None:
        while len(received) < 300_000:
            received.extend(line.there.recv(1 << 20))

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    sender = threading.Thread(target=line.here.sendall, args=(b"z" * 300_000,), daemon=True)
    sender.start()
    until(lambda: line.packets.read_lent(channel_lead(line.here)) is not None and len(received) >= 300_000)
    for one in (thread, sender):
        one.join(LIMIT_S)
    assert received == b"z" * 300_000


def test_nothing_is_lent_without_gcm() -> None:
    """paramiko's own code reads other ciphers."""
    ours, theirs = socket.socketpair()
    packets = Packets(ours)
    packets.lend(lambda: None)
    theirs.close()
    with pytest.raises(EOFError):
        packets.read_message()
    assert not packets.lent
    ours.close()
