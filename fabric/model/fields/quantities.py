"""Values with a unit, read from text: sizes in powers of two (``8M``), durations (``5s``), number ranges (``0-3``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.model.fields.scalars import Bounded, Scalar, plain, refusal
from fabric.model.text import size_text

_STEPS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DAY_S = 86_400
_INDEXES = re.compile(r"(0|[1-9][0-9]?)(?:-(0|[1-9][0-9]?))?")


@dataclass(frozen=True)
class Size(Bounded):
    """Bytes, with K, M, G, T for powers of two as the tools write them."""

    least: int
    most: int
    shape = re.compile(r"([1-9][0-9]{0,17})([KMGT]?)")

    def parse(self, value: object) -> int:
        """``8M`` is 8,388,608."""
        match = self.shape.fullmatch(value) if isinstance(value, str) else None
        size_bytes = int(match[1]) * _STEPS[match[2]] if match else 0
        if match and self.least <= size_bytes <= self.most:
            return size_bytes
        bounds = f"{size_text(self.least)} to {size_text(self.most)}"
        raise refusal(f"a size from {bounds} such as 8M, 64K, 1G or whole bytes", value)


@dataclass(frozen=True)
class Duration(Scalar):
    """Whole seconds, minutes or hours."""

    least_s: float
    most_s: float
    shape: ClassVar[re.Pattern[str]] = re.compile(r"([1-9][0-9]{0,8})([smh])")
    examples: ClassVar[str] = "5s, 2m or 1h"

    def parse(self, value: object) -> float:
        """``2m`` is 120 seconds; a number without its unit is refused."""
        return int(self._seconds(value))

    def _seconds(self, value: object) -> float:
        match = self.shape.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1]) * _SECONDS[match[2]] if match else -1.0
        if not match or not self.least_s <= seconds <= self.most_s:
            bounds = f"{in_unit(self.least_s)} to {in_unit(self.most_s)}"
            raise refusal(f"a duration from {bounds} such as {self.examples}", value)
        return seconds

    def json_schema(self) -> JsonSchemaValue:
        """Text such as 5s."""
        return {"type": "string", "pattern": f"^{self.shape.pattern}$"}


class Span(Duration):
    """A stretch of time to the millisecond; also fractions of its unit."""

    shape = re.compile(r"((?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,3})?)(ms|s|m|h)")
    examples = "0.5s, 500ms, 20s or 2m"

    def parse(self, value: object) -> float:
        """``0.5s``, ``500ms``, ``2m``, ``1.5h`` in seconds; a number without its unit is refused."""
        return round(self._seconds(value), 6)


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
    unit = next((unit for unit in "hm" if seconds >= _SECONDS[unit] and not seconds % _SECONDS[unit]), "s")
    days = f" ({plain(seconds / _DAY_S)} days)" if seconds > _DAY_S and not seconds % _DAY_S else ""
    return f"{plain(seconds / _SECONDS[unit])}{unit}{days}"


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
