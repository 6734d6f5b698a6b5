"""Values with a unit, read from text: sizes in powers of two (``8M``), durations (``5s``), number ranges (``0-3``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.model.fields.scalars import Scalar, plain, refusal
from fabric.model.text import size_text

_SIZE = re.compile(r"([1-9][0-9]{0,17})([KMGT]?)")
_STEPS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_LARGEST_FIRST = (("h", 3600), ("m", 60))
_DAY_S = 86_400
_SPAN = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,3})?(ms|s|m|h)")
_SPAN_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_INDEXES = re.compile(r"(0|[1-9][0-9]?)(?:-(0|[1-9][0-9]?))?")


@dataclass(frozen=True)
class Size(Scalar):
    """Bytes, with K, M, G, T for powers of two as the tools write them."""

    least: int
    most: int

    def parse(self, value: object) -> int:
        """``8M`` is 8,388,608."""
        expected = f"a size from {size_text(self.least)} to {size_text(self.most)} such as 8M, 64K, 1G or whole bytes"
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        size_bytes = int(match[1]) * _STEPS[match[2]] if match else 0
        if not match or not self.least <= size_bytes <= self.most:
            raise refusal(expected, value)
        return size_bytes

    def json_schema(self) -> JsonSchemaValue:
        """Bytes as a number, or text such as 8M."""
        pattern = f"^{_SIZE.pattern}$"
        return {"type": ["integer", "string"], "minimum": self.least, "maximum": self.most, "pattern": pattern}


@dataclass(frozen=True)
class Duration(Scalar):
    """Whole seconds, minutes or hours."""

    least_s: int
    most_s: int

    def parse(self, value: object) -> int:
        """``2m`` is 120 seconds; a number without its unit is refused."""
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
        if not match or not self.least_s <= seconds <= self.most_s:
            raise refusal(
                f"a duration from {in_unit(self.least_s)} to {in_unit(self.most_s)} such as 5s, 2m or 1h", value
            )
        return seconds

    def json_schema(self) -> JsonSchemaValue:
        """Text such as 5s."""
        return {"type": "string", "pattern": f"^{_DURATION.pattern}$"}


@dataclass(frozen=True)
class Span(Scalar):
    """A stretch of time to the millisecond; also fractions of its unit."""

    least_s: float
    most_s: float

    def parse(self, value: object) -> float:
        """``0.5s``, ``500ms``, ``2m``, ``1.5h`` in seconds; a number without its unit is refused."""
        match = _SPAN.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1] + (match[2] or "")) * _SPAN_SECONDS[match[3]] if match else -1.0
        if not match or not self.least_s <= seconds <= self.most_s:
            least, most = in_unit(self.least_s), in_unit(self.most_s)
            raise refusal(f"a duration from {least} to {most} such as 0.5s, 500ms, 20s or 2m", value)
        return round(seconds, 6)

    def json_schema(self) -> JsonSchemaValue:
        """Text such as 0.5s."""
        return {"type": "string", "pattern": f"^{_SPAN.pattern}$"}


@dataclass(frozen=True)
class Indexes(Scalar):
    """One small number or a range of them."""

    def parse(self, value: object) -> tuple[int, ...]:
        """``0-3`` is 0, 1, 2, 3."""
        match = _INDEXES.fullmatch(value) if isinstance(value, str) else None
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise refusal("a number from 0 to 99 or a range such as 0-3", value)
        return tuple(range(int(match[1]), int(match[2] or match[1]) + 1))

    def json_schema(self) -> JsonSchemaValue:
        """A number, or text such as 0-3."""
        return {"type": ["integer", "string"], "minimum": 0, "maximum": 99, "pattern": f"^{_INDEXES.pattern}$"}


def in_unit(seconds: float) -> str:
    """A bound as it may be written: ``90s``, ``5m``, ``24h``; days are for the reader only."""
    unit, size = next(
        ((unit, size) for unit, size in _LARGEST_FIRST if seconds >= size and not seconds % size), ("s", 1)
    )
    days = f" ({plain(seconds / _DAY_S)} days)" if seconds > _DAY_S and not seconds % _DAY_S else ""
    return f"{plain(seconds / size)}{unit}{days}"


def geometric(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes, if one ``-b -e -f`` of nccl-tests can run them: each the same whole multiple of the one before."""
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    if factor < 2 or any(after != before * factor for before, after in pairwise(sizes)):
        text = ", ".join(size_text(size) for size in sizes)
        raise PydanticCustomError(
            "geometric",
            f"expected sizes that grow by one constant whole factor, such as 1G, 2G, 4G; got {text}",
        )
    return sizes
