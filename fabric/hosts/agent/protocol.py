"""The protocol between us and the agent of a host: messages as lines, encoded, decoded and checked.

A host is not trusted: every line is bounded, every field has a type, and anything that does not fit raises Garbled.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter
from pydantic import ValidationError as Invalid

from fabric.errors import FabricError
from fabric.model.probe import Command
from fabric.ports import Source

LINE_BYTES = 8 << 20
"""Longest message of an agent; the longest ones carry rows of samples."""
PREAMBLE_BYTES = 1 << 20
"""Most bytes that a login shell may print before the agent's first word."""
_QUOTED_BYTES = 80
MOST_NAMES = 100_000


class Garbled(FabricError):
    """The other side does not speak the protocol; the message quotes what came instead."""


Data = Annotated[bytes, BeforeValidator(lambda text: text.encode("latin-1") if isinstance(text, str) else text)]
"""Bytes, each encoded as the character with that number."""
Value = int | float | None
"""A sampled value; None if it could not be read."""


class _Message(BaseModel):
    """A message of an agent."""

    model_config = ConfigDict(strict=True)


class _About(_Message):
    """A message about a request; ``id`` is its ticket."""

    id: NonNegativeInt


class Hello(_Message):
    """The agent has started. *t* is the reading of its host's monotonic clock."""

    e: Literal["hello"]
    t: FiniteFloat


class Listens(_About):
    """A server is ready."""

    e: Literal["ready"]


class Printed(_About):
    """A piece of a command's output."""

    e: Literal["out", "err"]
    data: Data


class Finished(_About):
    """A command has ended (*stuck*: it survives SIGKILL). *got* is how many bytes the agent had read by then."""

    e: Literal["ended"]
    why: Literal["ended", "deadline", "cancelled", "stuck"]
    status: NonNegativeInt | None = None
    t0: FiniteFloat
    t1: FiniteFloat
    out: Data = b""
    err: Data = b""
    cut: bool = False
    got: NonNegativeInt = 0


class CannotDo(_About):
    """The agent cannot carry out a request."""

    e: Literal["error"]
    cause: str


class Clock(_About):
    """A reading of the host's monotonic clock."""

    e: Literal["clock"]
    t: FiniteFloat


class SampledNames(_About):
    """The columns of the rows that follow."""

    e: Literal["names"]
    part: NonNegativeInt
    names: list[str] = Field(max_length=MOST_NAMES)


class Rows(_About):
    """Rows of samples: one value for each name of its series, with their times by the host's clock."""

    e: Literal["rows"]
    part: NonNegativeInt
    at: list[FiniteFloat]
    rows: list[list[Value]]


class SamplingStopped(_About):
    """Sampling has ended as asked."""

    e: Literal["stopped"]


class Got(_Message):
    """How many bytes the agent has read so far."""

    e: Literal["got"]
    n: NonNegativeInt


class Bye(_Message):
    """The agent ends, with the cause."""

    e: Literal["bye"]
    cause: str


Message = Hello | Listens | Printed | Finished | CannotDo | Clock | SampledNames | Rows | SamplingStopped | Got | Bye
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="e")])


class LineDecoder:
    """Turns the bytes of an agent into messages; bytes before its first word, which the nonce leads, are set aside."""

    def __init__(self, nonce: str) -> None:
        self._lead: bytes | None = f"fabric-agent-{nonce} ".encode("ascii")
        self._rest = bytearray()

    @property
    def preamble(self) -> str:
        """The beginning of what was printed before the agent's first word; empty once that has come."""
        return "" if self._lead is None else bytes(self._rest[:2000]).decode("utf-8", "replace")

    def feed(self, data: bytes) -> list[Message]:
        """Return all messages that are complete now; raises Garbled."""
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
    """Decode one line; raises Garbled."""
    try:
        return _MESSAGE.validate_python(orjson.loads(line))
    except Invalid as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise Garbled(f"a message with a bad field ({where}: {first['msg']}): {_quoted(line)}") from exc
    except (ValueError, UnicodeEncodeError) as exc:
        raise Garbled(f"not a message: {_quoted(line)}") from exc


def _quoted(line: bytes) -> str:
    return repr(line[:_QUOTED_BYTES].decode("utf-8", "replace")) + ("..." if len(line) > _QUOTED_BYTES else "")


def start_request(key: int, command: Command) -> bytes:
    """Encode a request to start a command; fields with their usual value are left out."""
    asked: dict[str, object] = {"v": "start", "id": key, "argv": command.argv, "timeout": command.timeout_s}
    asked["cap"] = command.output_cap_bytes
    if command.env:
        asked["env"] = command.env
    if command.ready_port is not None:
        asked["port"] = f"{command.ready_port:04X}"
    return _line(asked)


def sample_request(key: int, sources: Sequence[Source], period_s: float, report_interval_s: float) -> bytes:
    """Encode a request for samples every *period_s*, reported every *report_interval_s* (seconds)."""
    tools = [{"argv": source.argv, "form": source.form} for source in sources if source.argv]
    files = [source.path for source in sources if source.path]
    return _line(
        {"v": "sample", "id": key, "period": period_s, "told": report_interval_s, "files": files, "tools": tools}
    )


def key_request(verb: str, key: int) -> bytes:
    """Encode a request that has no fields but an id: cancel or clock."""
    return _line({"v": verb, "id": key})


def _line(fields: dict[str, object]) -> bytes:
    """Encode a line in ASCII. orjson is fast, but takes neither infinite times nor words that are not UTF-8."""
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        line = b"\xff"
    return line if line.isascii() else json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
