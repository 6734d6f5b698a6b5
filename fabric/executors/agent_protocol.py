"""
The lines that go between us and the agent of a host, encoded, decoded, and checked.

What a host says is not trusted: every line is bounded, every field has its type, and what does not fit is Garbled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence

import orjson

from fabric.errors import FabricError
from fabric.executors.agent_messages import (
    Bye,
    Clock,
    Failed,
    Finished,
    Got,
    Hello,
    Listens,
    Message,
    Names,
    Printed,
    Rows,
    Stopped,
)
from fabric.model.command import Command
from fabric.ports import Source

PROTOCOL = 1
LINE_BYTES = 8 << 20
"""No message of an agent is longer; the longest ones carry rows of samples."""
PREAMBLE_BYTES = 1 << 20
"""A login shell may print so much before the agent's first word."""
_QUOTED_BYTES = 80
_WHYS = ("ended", "deadline", "inactive", "cancelled", "stuck")

Fields = Mapping[str, object]


class Garbled(FabricError):
    """The other side does not speak the protocol; the message says what came instead."""


class Decoder:
    """Makes messages of an agent's bytes; what comes before its first word, led by the nonce, is set aside."""

    def __init__(self, nonce: str) -> None:
        self._lead: bytes | None = f"fabric-agent-{nonce} ".encode("ascii")
        self._rest = bytearray()

    @property
    def preamble(self) -> str:
        """The beginning of what was said before the agent's first word, empty once that has come."""
        return "" if self._lead is None else bytes(self._rest[:2000]).decode("utf-8", "replace")

    def feed(self, data: bytes) -> list[Message]:
        """All messages that are complete now; raises Garbled."""
        rest = self._rest
        rest += data
        if self._lead is not None and not self._found(self._lead):
            return []
        end = rest.rfind(b"\n")
        if end < 0:
            if len(rest) > LINE_BYTES:
                raise Garbled(f"a line of more than {LINE_BYTES} bytes")
            return []
        lines = bytes(rest[:end]).split(b"\n")
        del rest[: end + 1]
        return [decoded(line) for line in lines]

    def _found(self, lead: bytes) -> bool:
        start = self._rest.find(lead)
        if start < 0:
            if len(self._rest) > PREAMBLE_BYTES:
                raise Garbled(f"more than {PREAMBLE_BYTES} bytes before the agent's first word")
            return False
        del self._rest[: start + len(lead)]
        self._lead = None
        return True


def decoded(line: bytes) -> Message:
    """One line as a message; raises Garbled."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise Garbled(f"not a message: {_quoted(line)}") from exc
    if not isinstance(fields, dict):
        raise Garbled(f"not a message: {_quoted(line)}")
    kind = fields.get("e")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise Garbled(f"a message of no known kind: {_quoted(line)}")
    try:
        return reader(fields)
    except (KeyError, TypeError, ValueError, UnicodeEncodeError) as exc:
        raise Garbled(f"a message with a bad field ({exc}): {_quoted(line)}") from exc


def start_request(key: int, command: Command, *, at_s: float | None = None) -> bytes:
    """Ask for a command; *at_s* is when to begin by the host's clock, None: now. What is usual is left out."""
    asked: dict[str, object] = {
        "v": "start",
        "id": key,
        "argv": command.argv,
        "timeout": command.timeout_s,
        "cap": command.output_cap_bytes,
    }
    if command.env:
        asked["env"] = command.env
    if command.inactivity_s is not None:
        asked["inactivity"] = command.inactivity_s
    if command.ready_port is not None:
        asked["port"] = f"{command.ready_port:04X}"
    if at_s is not None:
        asked["at"] = at_s
    return _line(asked)


def sample_request(key: int, sources: Sequence[Source], period_s: float) -> bytes:
    """Ask for samples."""
    tools = [{"argv": source.argv, "form": source.form} for source in sources if source.argv]
    files = [source.path for source in sources if source.path]
    return _line({"v": "sample", "id": key, "period": period_s, "files": files, "tools": tools})


def key_request(verb: str, key: int) -> bytes:
    """Ask for one of: cancel, stop, clock."""
    return _line({"v": verb, "id": key})


PING = b'{"v":"ping"}\n'


def _line(fields: dict[str, object]) -> bytes:
    """In ASCII; orjson is the quick way, and takes neither infinite times nor words that are not UTF-8."""
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        line = b"\xff"
    return line if line.isascii() else json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def _hello(fields: Fields) -> Message:
    protocol = fields.get("protocol")
    if protocol != PROTOCOL:
        raise Garbled(f"its agent speaks version {str(protocol)[:20]} of the protocol, we speak {PROTOCOL}")
    return Hello(_text(fields, "python")[:40], _natural(fields, "pid"), _seconds(fields, "t"))


def _finished(fields: Fields) -> Message:
    why = _text(fields, "why")
    if why not in _WHYS:
        raise ValueError(f"why: {why[:20]!r}")
    # What survives SIGKILL has no status, and a command that was cancelled before it began printed nothing.
    status = -1 if why == "stuck" else _natural(fields, "status")
    return Finished(
        _natural(fields, "id"),
        why,
        status,
        _seconds(fields, "t0"),
        _seconds(fields, "t1"),
        _data(fields, "out") if fields.get("out") else b"",
        _data(fields, "err") if fields.get("err") else b"",
        fields.get("cut") is True,
        _natural(fields, "got") if "got" in fields else 0,
    )


def _names(fields: Fields) -> Message:
    names = _list(fields, "names")
    return Names(_natural(fields, "id"), _natural(fields, "part"), tuple(map(str, names)))


def _rows(fields: Fields) -> Message:
    at_s, rows = _list(fields, "at"), _list(fields, "rows")
    if len(at_s) != len(rows):
        raise ValueError("rows: not as many as times")
    seconds = tuple(_seconds({"at": one}, "at") for one in at_s)
    return Rows(_natural(fields, "id"), _natural(fields, "part"), seconds, tuple(rows), _natural(fields, "lost"))


def _text(fields: Fields, name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name}: not a text")
    return value


def _data(fields: Fields, name: str) -> bytes:
    return _text(fields, name).encode("latin-1")


def _natural(fields: Fields, name: str) -> int:
    value = fields[name]
    if type(value) is not int or value < 0:
        raise TypeError(f"{name}: not a natural number")
    return value


def _seconds(fields: Fields, name: str) -> float:
    value = fields[name]
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not int:
        raise TypeError(f"{name}: not a time")
    return float(value)


def _list(fields: Fields, name: str) -> list[object]:
    value = fields[name]
    if not isinstance(value, list):
        raise TypeError(f"{name}: not a list")
    return value


def _quoted(line: bytes) -> str:
    shown = line[:_QUOTED_BYTES].decode("utf-8", "replace")
    return repr(shown) + ("..." if len(line) > _QUOTED_BYTES else "")


_READERS: Mapping[str, Callable[[Fields], Message]] = {
    "hello": _hello,
    "ready": lambda fields: Listens(_natural(fields, "id")),
    "out": lambda fields: Printed(_natural(fields, "id"), stderr=False, data=_data(fields, "data")),
    "err": lambda fields: Printed(_natural(fields, "id"), stderr=True, data=_data(fields, "data")),
    "ended": _finished,
    "error": lambda fields: Failed(_natural(fields, "id"), _text(fields, "cause")[:500]),
    "clock": lambda fields: Clock(_natural(fields, "id"), _seconds(fields, "t")),
    "names": _names,
    "rows": _rows,
    "stopped": lambda fields: Stopped(_natural(fields, "id")),
    "got": lambda fields: Got(_natural(fields, "n")),
    "bye": lambda fields: Bye(_text(fields, "cause")[:500]),
}
