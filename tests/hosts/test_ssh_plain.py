"""SSH without a lab: how servers that are none are worded, and how connections are shared."""

from __future__ import annotations

import inspect
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from fabric.errors import HostUnreachable
from fabric.hosts.ssh import SshExecutor
from fabric.hosts.ssh.connection import Connection, HostConnections
from fabric.hosts.ssh.keys import HostRefused
from fabric.model.command import Command
from fabric.model.inventory import SshSettings
from fabric.ports import run_once


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """An RSA key of the user's own; made without ssh-keygen, which may be absent."""
    path = tmp_path / "key"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path))
    return str(path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A TCP port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def reaching(port: int, key_file: str, *, timeout_s: float = 1.0) -> SshExecutor:
    """An executor whose one host is a port of this machine."""
    settings = SshSettings("root", port, key_file, agent=False, known_hosts=(), connect_timeout_s=timeout_s)
    return SshExecutor(settings, {"h": "127.0.0.1"})


def why(executor: SshExecutor) -> str:
    """How a command is lost."""
    with pytest.raises(HostUnreachable) as caught:
        run_once(executor, Command("h", ("true",), 5))
    executor.close()
    assert [one for one in threading.enumerate() if isinstance(one, paramiko.Transport)] == []
    return str(caught.value)


def test_silent_server(listener: socket.socket, key_file: str):
    """A port that accepts and says nothing is told from a host that is down."""
    assert why(reaching(listener.getsockname()[1], key_file)) == (
        "h: exchanging keys: TCP connects but no SSH banner within 1 s"
    )


def test_server_that_hangs_up_is_tried_three_times(listener: socket.socket, key_file: str):
    """sshd drops connections beyond MaxStartups; that is worth another try, and is worded as what it is."""
    seen: list[int] = []

    def hang_up() -> None:
        for number in range(3):
            listener.accept()[0].close()
            seen.append(number)

    server = threading.Thread(target=hang_up)
    server.start()
    said = why(reaching(listener.getsockname()[1], key_file, timeout_s=5.0))
    server.join(10)
    assert seen == [0, 1, 2]
    assert said.startswith("h: exchanging keys: the server hung up before its SSH banner")


def test_closed_port_and_missing_key(listener: socket.socket, key_file: str):
    """What is refused says by whom; what is missing says what."""
    port = listener.getsockname()[1]
    assert "the-key does not exist" in why(reaching(port, "/nowhere/the-key"))
    listener.close()
    assert f"connection refused by 127.0.0.1 port {port}; is sshd running there?" in why(reaching(port, key_file))


def test_locked_key_says_what_to_do(listener: socket.socket, tmp_path: Path):
    """A key with passphrase belongs into the agent."""
    path = tmp_path / "locked"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path), password="secret words")
    said = why(reaching(listener.getsockname()[1], str(path)))
    assert "is locked by a passphrase; add it to ssh-agent" in said


def test_paramiko_still_has_the_attributes_we_rely_on():
    """Public, but not documented: a release without them fails here."""
    channel = paramiko.Channel(0)
    assert hasattr(channel.in_buffer, "set_event")
    assert hasattr(channel.in_stderr_buffer, "set_event")
    assert "self.clear_to_send = threading.Event()" in inspect.getsource(paramiko.Transport.__init__)


def test_waiting_commands_share_a_failure():
    """Twelve commands for a dead host cost one attempt, and the next command one more."""
    tried: list[int] = []
    together = threading.Barrier(12)
    release = threading.Event()

    def opener() -> Connection:
        tried.append(1)
        release.wait(5)
        raise HostUnreachable("h", "connecting", "no answer")

    host = HostConnections("h", opener)
    said: list[str] = []

    def acquire() -> None:
        together.wait(5)
        try:
            host.acquire()
        except HostUnreachable as exc:
            said.append(exc.cause)

    threads = [threading.Thread(target=acquire) for _ in range(12)]
    for thread in threads:
        thread.start()
    threads[0].join(0.5)  # all wait by then; who does not would be a second attempt
    release.set()
    for thread in threads:
        thread.join(10)
    assert (said, len(tried)) == (["no answer"] * 12, 1)
    with pytest.raises(HostUnreachable):
        host.acquire()
    assert len(tried) == 2


def test_refusal_is_remembered():
    """After a refused key or login the host is not asked again."""
    tried: list[int] = []

    def opener() -> Connection:
        tried.append(1)
        raise HostRefused("h", "authenticating", "authentication failed")

    host = HostConnections("h", opener)
    for _ in range(5):
        with pytest.raises(HostRefused, match="authentication failed"):
            host.acquire()
    assert len(tried) == 1


def test_importing_the_wiring_does_not_import_paramiko():
    """paramiko takes half a second to import; only runs over SSH pay for it."""
    program = "import sys, fabric.wiring; sys.exit('paramiko' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", program), check=False, timeout=60).returncode == 0
