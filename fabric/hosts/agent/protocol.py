"""
The lines that go between us and the agent of a host: what may be said, encoded, decoded, and checked.

What a host says is not trusted: every line is bounded, every field has its type, and what does not fit is Garbled.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, NonNegativeInt, TypeAdapter
from pydantic import ValidationError as Invalid

from fabric.errors import FabricError
from fabric.model.command import Command
from fabric.ports import Source

LINE_BYTES = 8 << 20
"""No message of an agent is longer; the longest ones carry rows of samples."""
PREAMBLE_BYTES = 1 << 20
"""A login shell may print so much before the agent's first word."""
_QUOTED_BYTES = 80
MOST_NAMES = 100_000


class Garbled(FabricError):
    """The other side does not speak the protocol; the message says what came instead."""


Data = Annotated[bytes, BeforeValidator(lambda text: text.encode("latin-1") if isinstance(text, str) else text)]
"""Bytes, each as the character of that number."""
Value = int | float | None
"""What was sampled; None could not be read."""


class _Message(BaseModel):
    """Something that an agent says; ``id`` is the ticket of what it is about."""

    model_config = ConfigDict(strict=True)


class Hello(_Message):
    """The agent is there. *t* is what its host's monotonic clock reads."""

    e: Literal["hello"]
    t: FiniteFloat


class Listens(_Message):
    """A server is ready."""

    e: Literal["ready"]
    id: NonNegativeInt


class Printed(_Message):
    """A piece of a command's output."""

    e: Literal["out", "err"]
    id: NonNegativeInt
    data: Data


class Finished(_Message):
    """A command has ended (*stuck*: it survives SIGKILL). *got* is how many bytes the agent had read by then."""

    e: Literal["ended"]
    id: NonNegativeInt
    why: Literal["ended", "deadline", "cancelled", "stuck"]
    status: NonNegativeInt | None = None
    t0: FiniteFloat
    t1: FiniteFloat
    out: Data = b""
    err: Data = b""
    cut: bool = False
    got: NonNegativeInt = 0


class CannotDo(_Message):
    """The agent cannot do what was asked."""

    e: Literal["error"]
    id: NonNegativeInt
    cause: str


class Clock(_Message):
    """What the host's monotonic clock reads."""

    e: Literal["clock"]
    id: NonNegativeInt
    t: FiniteFloat


class SampledNames(_Message):
    """The columns of the rows that follow."""

    e: Literal["names"]
    id: NonNegativeInt
    part: NonNegativeInt
    names: list[str] = Field(max_length=MOST_NAMES)


class Rows(_Message):
    """A value for each of the names of its series, at each of these times of the host's clock."""

    e: Literal["rows"]
    id: NonNegativeInt
    part: NonNegativeInt
    at: list[FiniteFloat]
    rows: list[list[Value]]


class SamplingStopped(_Message):
    """Sampling has ended as asked."""

    e: Literal["stopped"]
    id: NonNegativeInt


class Got(_Message):
    """How many bytes the agent has read so far."""

    e: Literal["got"]
    n: NonNegativeInt


class Bye(_Message):
    """The agent ends, and why."""

    e: Literal["bye"]
    cause: str


Message = Hello | Listens | Printed | Finished | CannotDo | Clock | SampledNames | Rows | SamplingStopped | Got | Bye
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="e")])


class LineDecoder:
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
    """Ask for a command; what is usual is left out."""
    asked: dict[str, object] = {"v": "start", "id": key, "argv": command.argv, "timeout": command.timeout_s}
    asked["cap"] = command.output_cap_bytes
    if command.env:
        asked["env"] = command.env
    if command.ready_port is not None:
        asked["port"] = f"{command.ready_port:04X}"
    return _line(asked)


def sample_request(key: int, sources: Sequence[Source], period_s: float, report_interval_s: float) -> bytes:
    """Ask for samples, and for a report of them so often."""
    tools = [{"argv": source.argv, "form": source.form} for source in sources if source.argv]
    files = [source.path for source in sources if source.path]
    return _line(
        {"v": "sample", "id": key, "period": period_s, "told": report_interval_s, "files": files, "tools": tools}
    )


def key_request(verb: str, key: int) -> bytes:
    """Ask for one of: cancel, clock."""
    return _line({"v": verb, "id": key})


def _line(fields: dict[str, object]) -> bytes:
    """In ASCII; orjson is the quick way, and takes neither infinite times nor words that are not UTF-8."""
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        line = b"\xff"
    return line if line.isascii() else json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
