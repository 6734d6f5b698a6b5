"""Types of single values in files, each read from text.

Whole numbers, decimals, true/false, words, lines of text, and values with a unit: sizes in powers of two (``8M``),
durations (``5s``), number ranges (``0-3``).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fabric.model.fields.wording import nearest, one_of, quoted, seen
from fabric.model.text import SIZE_STEPS, size_text

_ANYTHING_WRITTEN = ["string", "number", "boolean"]
"""JSON Schema types of a text that an editor may take for a number or a boolean."""
_YES, _NO = ("true", "yes", "on", "y", "1"), ("false", "no", "off", "n", "0")


def refusal(expected: str, value: object, *, hint: str = "") -> PydanticCustomError:
    """Return the error that says what was expected and what was there."""
    # Without a context, pydantic leaves braces in the text as they are.
    return PydanticCustomError("refused", f"expected {expected}, got {seen(value)}{hint}")


def plain(number: float) -> str:
    """Return a bound as a person would write it: 1000000 and not 1e+06, 0.001, 1e-06."""
    return f"{number:.12g}"


class Scalar(ABC):
    """
    Metadata for ``Annotated``: reads a value from text and describes it in JSON Schema.

    Scalars in a file are all text. A value that is not text was decoded before, in run.json or by the program itself,
    and is taken as the annotated type.
    """

    @abstractmethod
    def parse(self, value: object) -> object:
        """Return the value, or raise a refusal."""

    @abstractmethod
    def json_schema(self) -> JsonSchemaValue:
        """Return what an editor should accept."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._read, handler(source))

    def _read(self, value: object, decoded: core_schema.ValidatorFunctionWrapHandler) -> object:
        return self.parse(value) if isinstance(value, str | list | dict) else decoded(value)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return self.json_schema()


@dataclass(frozen=True)
class Bounded(Scalar):
    """A number between two bounds (both allowed), as text of a *shape*; *number* is its type in JSON Schema."""

    least: float
    most: float
    shape: ClassVar[re.Pattern[str]]
    number: ClassVar[str] = "integer"

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a number, or the same as text."""
        pattern = f"^{self.shape.pattern}$"
        return {"type": [self.number, "string"], "minimum": self.least, "maximum": self.most, "pattern": pattern}


class Whole(Bounded):
    """A whole number in plain digits."""

    shape = re.compile(r"(0|[1-9][0-9]{0,18})")

    def parse(self, value: object) -> int:
        """Accept ``22`` but not ``022``, ``0x16``, ``2_2``, ``22.0`` or ``22:22``."""
        text = value if isinstance(value, str) else ""
        plainly = self.shape.fullmatch(text)
        if plainly and self.least <= int(text) <= self.most:
            return int(text)
        hint = " (plain digits without a leading zero)" if text[:1].isdigit() and not plainly else ""
        raise refusal(f"a whole number from {self.least} to {self.most}", value, hint=hint)


class Decimal(Bounded):
    """A decimal number, with an optional exponent."""

    shape = re.compile(r"(0|[1-9][0-9]{0,17})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
    number = "number"

    def parse(self, value: object) -> float:
        """Accept ``0.5``, ``400``, ``1e-6``."""
        if isinstance(value, str) and self.shape.fullmatch(value) and self.least <= float(value) <= self.most:
            return float(value)
        raise refusal(f"a number from {plain(self.least)} to {plain(self.most)}", value)


class Flag(Scalar):
    """true or false, and nothing else."""

    words: ClassVar[tuple[str, str]] = ("true", "false")

    def parse(self, value: object) -> bool:
        """Return the value; refuse ``yes``, ``on`` and the like, because YAML versions disagree about them."""
        if value in self.words:
            return value == self.words[0]
        text = value.lower() if isinstance(value, str) else ""
        meant = [word for word, alike in zip(self.words, (_YES, _NO), strict=True) if text in alike]
        raise refusal(" or ".join(self.words), value, hint=f"; write {meant[0]}" if meant else "")

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of the words, or of what YAML 1.1 makes of them."""
        return {"enum": [True, False, *self.words]}


class OnOff(Flag):
    """on or off, the words of a switch; nothing else is allowed, so that all files look alike."""

    words = ("on", "off")


@dataclass(frozen=True)
class Choice(Scalar):
    """One of a few words; they are looked up for each value, so the mapping with them may be filled later."""

    words: Collection[str]

    def parse(self, value: object) -> str:
        """Return the word, or raise a refusal that suggests the nearest one."""
        if isinstance(value, str) and value in self.words:
            return value
        raise refusal(one_of(self.words), value, hint=nearest(value, self.words) if isinstance(value, str) else "")

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of the words."""
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Word(Scalar):
    """A name of a fixed shape; *expected* describes the shape in words."""

    pattern: str
    expected: str
    types: ClassVar[str | list[str]] = "string"
    """Its type in JSON Schema."""

    def parse(self, value: object) -> str:
        """Return the name; all of it must have the shape (a trailing newline does not)."""
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return value
        raise refusal(self.expected, value)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of the shape as a pattern."""
        return {"type": self.types, "pattern": f"^{self.pattern}$"}


class OneWord(Word):
    """A word that is passed on as written, even if YAML would call it a number."""

    types = _ANYTHING_WRITTEN


class WebAddress(Word):
    """The address of a web service, without an account in it."""

    def parse(self, value: object) -> str:
        """Return the address; refuse one with an account, because files are shared."""
        if isinstance(value, str) and "@" in value:
            raise refusal("an address without an account (put it into ~/.netrc of 'via')", "…@…")
        return super().parse(value)


@dataclass(frozen=True)
class Line(Scalar):
    """One line of printable free text that cannot be taken for an option."""

    what: str
    most: int = 1024
    option: bool = False  # may start with "-"
    types: ClassVar[str | list[str]] = "string"
    """Its type in JSON Schema."""

    def parse(self, value: object) -> str:
        """Return the text; refuse control, direction and line-break characters."""
        expected = f"{self.what} (printable, 1 to {self.most} characters, one line)"
        if not isinstance(value, str) or not 0 < len(value) <= self.most or not value.isprintable():
            raise refusal(expected, value)
        if value.startswith("-") and not self.option:
            raise refusal(f"{self.what} that does not start with '-'", value)
        return value

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a text of limited length."""
        return {"type": self.types, "minLength": 1, "maxLength": self.most}


@dataclass(frozen=True)
class AsWritten(Line):
    """One line that is passed on as written, even if YAML would call it a number."""

    option: bool = True
    types = _ANYTHING_WRITTEN


class NameNotFile(Word):
    """A name for which a person may write the name of its file by mistake."""

    def parse(self, value: object) -> str:
        """Return the name; refuse a path or a file's name, and suggest the name in it."""
        if isinstance(value, str) and ("/" in value or value.endswith((".yaml", ".yml"))):
            stem = value.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
            meant = quoted(stem) if re.fullmatch(self.pattern, stem) else "the name alone"
            raise refusal(self.expected, value, hint=f"; this is a name, not a file: write {meant}")
        return super().parse(value)


_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
SAFE_NAME = Word(_NAME, "a name of 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
"""Names that become parts of paths and of ids."""
NAME_MOST = 128
"""
The most characters of a phase's name with its combination and round.

The name is part of ids and of file names, which may have 255 characters.
"""
PHASE_NAME = Word(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_MOST - 1}}}", SAFE_NAME.expected.replace("64", str(NAME_MOST)))
"""The name of a phase; a matrix makes longer ones from those in the file."""
BASELINE_NAME = NameNotFile(SAFE_NAME.pattern, SAFE_NAME.expected)

HOST_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ADDRESS_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")
ADDRESS = Word(ADDRESS_PATTERN.pattern, "a host name or address (letters, digits, '.', ':', '_', '-')")
USER = Word(r"[A-Za-z_][A-Za-z0-9._-]{0,31}", "a user name (letters, digits, '.', '_', '-')")
DEVICE = Word(
    r"(mlx5_|bnxt_re|irdma|rdma|rocep|ibp)[A-Za-z0-9_.-]{1,15}",
    "an RDMA device such as mlx5_0 (mlx5_, bnxt_re, irdma, rdma, rocep or ibp, then 1 to 15 characters)",
)
OPTION_WORD = OneWord(r"[!-~]{1,1024}", "one printable word without blanks (a list has one word in each place)")


_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DAY_S = 86_400
_INDEXES = re.compile(r"(0|[1-9][0-9]?)(?:-(0|[1-9][0-9]?))?")


@dataclass(frozen=True)
class Size(Bounded):
    """Bytes; K, M, G, T are powers of two, as the tools write them."""

    least: int
    most: int
    shape = re.compile(r"([1-9][0-9]{0,17})([KMGT]?)")

    def parse(self, value: object) -> int:
        """Return bytes: ``8M`` is 8,388,608."""
        match = self.shape.fullmatch(value) if isinstance(value, str) else None
        size_bytes = int(match[1]) * SIZE_STEPS.get(match[2], 1) if match else 0
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
        """Return seconds: ``2m`` is 120; a number without a unit is refused."""
        return int(self._seconds(value))

    def _seconds(self, value: object) -> float:
        match = self.shape.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1]) * _SECONDS[match[2]] if match else -1.0
        if not match or not self.least_s <= seconds <= self.most_s:
            bounds = f"{in_unit(self.least_s)} to {in_unit(self.most_s)}"
            raise refusal(f"a duration from {bounds} such as {self.examples}", value)
        return seconds

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a text such as 5s."""
        return {"type": "string", "pattern": f"^{self.shape.pattern}$"}


class Span(Duration):
    """A duration to the millisecond, which may have fractions of its unit."""

    shape = re.compile(r"((?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,3})?)(ms|s|m|h)")
    examples = "0.5s, 500ms, 20s or 2m"

    def parse(self, value: object) -> float:
        """Return ``0.5s``, ``500ms``, ``2m``, ``1.5h`` in seconds; a number without a unit is refused."""
        return round(self._seconds(value), 6)


class Indexes(Scalar):
    """One small number or a range of small numbers."""

    def parse(self, value: object) -> tuple[int, ...]:
        """Return the numbers: ``0-3`` is 0, 1, 2, 3."""
        match = _INDEXES.fullmatch(value) if isinstance(value, str) else None
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise refusal("a number from 0 to 99 or a range such as 0-3", value)
        return tuple(range(int(match[1]), int(match[2] or match[1]) + 1))

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a number, or of a text such as 0-3."""
        return {"type": ["integer", "string"], "minimum": 0, "maximum": 99, "pattern": f"^{_INDEXES.pattern}$"}


def in_unit(seconds: float) -> str:
    """Return a bound as a file may write it: ``90s``, ``5m``, ``24h``; days are added for the reader only."""
    unit = next((unit for unit in "hm" if seconds >= _SECONDS[unit] and not seconds % _SECONDS[unit]), "s")
    days = f" ({plain(seconds / _DAY_S)} days)" if seconds > _DAY_S and not seconds % _DAY_S else ""
    return f"{plain(seconds / _SECONDS[unit])}{unit}{days}"


def geometric(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """
    Return the sizes if one ``-b -e -f`` of nccl-tests can run them: each the same whole multiple of the one before.
    """
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    if factor < 2 or any(after != before * factor for before, after in pairwise(sizes)):
        expected = "expected sizes that grow by one constant whole factor, such as 1G, 2G, 4G"
        raise PydanticCustomError("geometric", f"{expected}; got {', '.join(map(size_text, sizes))}")
    return sizes
