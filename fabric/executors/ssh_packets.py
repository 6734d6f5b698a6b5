"""
SSH packets under AES-GCM, for less than paramiko's own code takes: one ``recv`` for all that has arrived.

Its other job is to lend the reading: an idle session's thread can sleep while another thread reads, for all sessions,
what is usual (data of one channel). What is not usual goes to the session's thread, which then reads by itself again.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.packet import NeedRekeyException, Packetizer

from fabric.executors.ssh_gcm import Gcm

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHUNK_BYTES = 64 << 10
_LOOK_S = 60.0  # how often a session whose reading is lent looks whether it was closed, should nobody tell
_WRITABLE_MS = 2000
CHANNEL_DATA = b"\x5e"
"""How a message with data of a channel begins (RFC 4254, 5.2); the channel's number follows."""
_SEQUENCE = 0xFFFFFFFF


class Packets(Packetizer):
    """
    Packets over a socket, or over a channel of a jump host's session.

    Only the session's thread reads, or whoever it has lent the reading to (``lend``, ``read_lent``).
    """

    # Private to paramiko 5; a test fails should a version of it lose one of them.
    _Packetizer__sequence_number_in: int
    _Packetizer__sequence_number_out: int

    def __init__(self, sock: socket.socket | paramiko.Channel) -> None:
        super().__init__(sock)  # type: ignore[arg-type]
        self._sock = sock
        self._buffer = bytearray()  # has arrived, and was not looked at
        self._in: Gcm | None = None
        self._out: Gcm | None = None
        self._writing = threading.Lock()
        self.lent = False
        """Whether somebody else reads at the moment."""
        self._lending = threading.Lock()
        self._begun: Callable[[], None] | None = None
        self._back = threading.Event()
        self._unusual: tuple[int, paramiko.Message] | BaseException | None = None

    # What paramiko's transport calls.

    def start_handshake(self, timeout: float) -> None:
        """No thread for a timer: who starts a handshake waits for it with a limit, and ends the session then."""

    def close(self) -> None:
        """Close the socket; a session that sleeps is woken."""
        super().close()
        self._give_back()

    def set_inbound_cipher(self, block_engine: Any, *args: Any, **more: Any) -> None:
        """From the next packet on, other keys."""
        super().set_inbound_cipher(block_engine, *args, **more)
        self._in = Gcm(block_engine, more["iv_in"]) if more.get("aead") else None

    def set_outbound_cipher(self, block_engine: Any, *args: Any, **more: Any) -> None:
        """From the next packet on, other keys."""
        super().set_outbound_cipher(block_engine, *args, **more)
        self._out = Gcm(block_engine, more["iv_out"]) if more.get("aead") else None

    def send_message(self, data: paramiko.Message) -> None:
        """Send one message; raises EOFError when the connection is gone."""
        if self._out is None:
            super().send_message(data)
        else:
            self.send_payload(data.asbytes())

    def send_payload(self, payload: bytes) -> None:
        """Send one message, under AES-GCM only."""
        with self._writing:
            out = self._out
            assert out is not None
            self.write_all(out.sealed(payload))
            self._Packetizer__sequence_number_out = (self._Packetizer__sequence_number_out + 1) & _SEQUENCE
            if out.packets >= self.REKEY_PACKETS or out.bytes >= self.REKEY_BYTES:
                self._ask_for_keys()

    def read_message(self) -> tuple[int, paramiko.Message]:
        """The next message's type and content; raises what paramiko's own does, EOFError at the end."""
        gcm = self._in is not None and self._out is not None
        if gcm and self._begun is not None and not self.need_rekey():
            unusual = self._sleep()
            if isinstance(unusual, BaseException):
                raise unusual
            if unusual is not None:
                return unusual
        if self._in is None:
            return super().read_message()
        while (payload := self._next(self._in)) is None:
            if not self._receive() and not self._buffer and self.need_rekey():
                raise NeedRekeyException
        return self._message(payload)

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Just so many bytes; raises EOFError when they will never come."""
        buffer = self._buffer
        while len(buffer) < n:
            if not self._receive() and check_rekey and not buffer and self.need_rekey():
                raise NeedRekeyException
        data = bytes(buffer[:n])
        del buffer[:n]
        return data

    def readline(self, timeout: float) -> str:
        """A line of the server's greeting; raises TimeoutError."""
        waited_s = 0.0
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _CHUNK_BYTES:
                raise paramiko.SSHException(": a line that does not end")
            if not self._receive():
                waited_s += self._sock.gettimeout() or timeout
            if waited_s >= timeout:
                raise TimeoutError
        line = self._buffer[:end].removesuffix(b"\r").decode("utf-8", "replace")
        del self._buffer[: end + 1]
        return line

    def write_all(self, out: Buffer) -> None:
        """Send everything; raises EOFError when the connection is gone."""
        left = bytes(out)
        while left:
            try:
                count = self._sock.send(left)
            except (TimeoutError, BlockingIOError) as exc:
                if self.closed:
                    raise EOFError from exc
                self._await_room()
                continue
            except OSError as exc:
                raise EOFError from exc
            if count == len(left):
                return
            if count == 0:
                raise EOFError
            left = left[count:]

    # What the stream to an agent calls.

    def lend(self, begun: Callable[[], None]) -> None:
        """
        Let somebody else read when the next message has been dealt with; *begun* is called each time that begins.

        Without AES-GCM, or over a jump host, nothing is ever lent.
        """
        if isinstance(self._sock, socket.socket):
            with self._lending:
                self._begun = begun

    def reclaim(self) -> None:
        """From now on the session's own thread reads, as it does at first; any thread may ask for it."""
        with self._lending:
            self._begun = None
            self._give_back()

    def read_lent(self, lead: bytes) -> tuple[bytes, bool]:
        """
        Data of one channel that has arrived, and whether there may be more; *lead* is ``channel_lead`` of it.

        Never blocks. With anything else the session's thread goes on reading, and ``lent`` is false then.
        """
        if not self.lent:
            return b"", False
        pieces, full = [], False
        try:
            try:
                data = self._sock.recv(_CHUNK_BYTES)
            except BlockingIOError:
                data = b""
            else:
                if not data:
                    raise EOFError
            full = len(data) == _CHUNK_BYTES
            self._buffer += data
            assert self._in is not None
            while (payload := self._next(self._in)) is not None:
                if not payload.startswith(lead):
                    self._unusual = self._message(payload)
                    self._give_back()
                    break
                pieces.append(payload[9 : 9 + int.from_bytes(payload[5:9], "big")])
        except Exception as exc:  # noqa: BLE001  # whatever it is ends the session, in its own thread
            self._unusual = exc
            self._give_back()
        if self.lent and self.need_rekey():
            self._give_back()
        return b"".join(pieces), full

    # The rest.

    def _sleep(self) -> tuple[int, paramiko.Message] | BaseException | None:
        """In the session's thread: until the reading is given back; returns what is to be dealt with."""
        with self._lending:
            begun = self._begun
            if begun is None:
                return None
            self._back.clear()
            if self.closed:
                return EOFError()
            timeout_s = self._sock.gettimeout()
            self._sock.settimeout(0)
            self.lent = True
        begun()
        while not self._back.wait(_LOOK_S) and not self.closed:
            pass
        self.lent = False
        if self.closed:
            return EOFError()
        self._sock.settimeout(timeout_s)
        unusual, self._unusual = self._unusual, None
        return unusual

    def _ask_for_keys(self) -> None:
        self._trigger_rekey()  # type: ignore[attr-defined]

    def _give_back(self) -> None:
        self.lent = False
        self._back.set()

    def _receive(self) -> bool:
        """Wait for more; False when nothing has come in the time that the socket allows."""
        try:
            data = self._sock.recv(_CHUNK_BYTES)
        except (TimeoutError, BlockingIOError) as exc:
            if self.closed:
                raise EOFError from exc
            return False
        except OSError as exc:
            if self.closed:
                raise EOFError from exc
            raise
        if not data:
            raise EOFError
        self._buffer += data
        return True

    def _await_room(self) -> None:
        """The socket may be one that never waits."""
        if isinstance(self._sock, socket.socket) and self._sock.gettimeout() == 0:
            poll = select.poll()
            poll.register(self._sock, select.POLLOUT)
            poll.poll(_WRITABLE_MS)

    def _next(self, keys: Gcm) -> bytes | None:
        """The payload of the next packet, once it is there in full; raises what ``Gcm.opened`` does."""
        payload = keys.opened(self._buffer)
        if payload is None:
            return None
        self._Packetizer__sequence_number_in = (self._Packetizer__sequence_number_in + 1) & _SEQUENCE
        if keys.packets >= self.REKEY_PACKETS or keys.bytes >= self.REKEY_BYTES:
            if keys.packets >= 2 * self.REKEY_PACKETS or keys.bytes >= 2 * self.REKEY_BYTES:
                raise paramiko.SSHException("the server ignores that new keys are due")
            self._ask_for_keys()
        return payload

    def _message(self, payload: bytes) -> tuple[int, paramiko.Message]:
        message = paramiko.Message(payload[1:])
        message.seqno = (self._Packetizer__sequence_number_in - 1) & _SEQUENCE
        return payload[0], message


def channel_lead(channel: paramiko.Channel) -> bytes:
    """How every message with data of that channel begins."""
    return CHANNEL_DATA + channel.get_id().to_bytes(4, "big")
