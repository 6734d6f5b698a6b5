"""Folded sets of host names, such as ``gpu[001-016,020]``, whose names are counted before they are unfolded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.model.fields.scalars import Scalar, refusal
from fabric.model.fields.wording import quoted
from fabric.model.text import fold, unfold

NAMES_MOST = 100_000
_TEXT_MOST = 65_536
_SHOWN_MOST = 64  # folding names with two numbers in them takes minutes for 100,000
_RANGE = r"[0-9]{1,9}(?:-[0-9]{1,9}(?:/[0-9]{1,9})?)?"
_BRACKET = re.compile(rf"\[({_RANGE}(?:,{_RANGE})*)\]")
_ITEM = re.compile(rf"(?:[A-Za-z0-9._-]|\[{_RANGE}(?:,{_RANGE})*\])+")
_INSIDE = re.compile(r"\[[^\[\]]*\]")
_BRACKETS_MOST = 4  # in one name
_EXPECTED = "a set of names such as gpu[001-016] or gpu001,gpu005"


@dataclass(frozen=True, slots=True)
class Folded:
    """A set of names, still folded, and how many there are."""

    items: tuple[str, ...]
    count: int

    def names(self) -> tuple[str, ...]:
        """Return the names in the order written; raise ValueError if one is there twice."""
        found: dict[str, None] = {}
        for item in self.items:
            # Item by item: ClusterShell would sort the names, and drop duplicates.
            found.update(dict.fromkeys(unfold(item)))
        if len(found) != self.count:
            raise ValueError(f"{self.count - len(found)} of the {self.count} names are there twice")
        return tuple(found)


def some(names: Sequence[str]) -> str:
    """Return names for a message, quoted and folded: the first ones, and how many more there are."""
    rest = len(names) - _SHOWN_MOST
    return quoted(fold(names[:_SHOWN_MOST])) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True)
class FoldedNames(Scalar):
    """Reads a folded set; checks its shape and size only, and unfolds nothing."""

    most: int = NAMES_MOST

    def parse(self, value: object) -> Folded:
        """Return the folded set; ``gpu[0-999999999]`` is refused by arithmetic alone."""
        if not isinstance(value, str) or len(value) > _TEXT_MOST:
            raise refusal(_EXPECTED, value)
        hidden = _INSIDE.sub(lambda bracket: bracket[0].replace(",", "\0"), value)  # commas that separate no items
        items = tuple(item.replace("\0", ",") for item in hidden.split(","))
        try:
            total = sum(map(_count, items))
        except ValueError as exc:
            raise refusal(_EXPECTED, value, hint=str(exc)) from exc
        if total > self.most:
            text = f"expected at most {self.most} names, got {total} from {quoted(value)}"
            raise PydanticCustomError("too_many", text)
        return Folded(items, total)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of a text of names and ranges."""
        return {"type": "string", "pattern": r"^[A-Za-z0-9._,/\[\]-]+$"}


def _count(item: str) -> int:
    """Return how many names an item stands for; ValueError if it cannot be read, with the reason if known."""
    brackets = _BRACKET.findall(item)
    if not _ITEM.fullmatch(item) or len(brackets) > _BRACKETS_MOST:
        raise ValueError
    return prod(sum(map(_length, bracket.split(","))) for bracket in brackets)


def _length(part: str) -> int:
    """
    Return how many numbers a range like ``001-016`` or ``0-8/2`` holds; ValueError if it holds none, with the reason.
    """
    numbers, _, step = part.partition("/")
    first, _, last = numbers.partition("-")
    last = last or first
    if step and not int(step):
        raise ValueError(f" ({quoted(part)}: a step of 0)")
    # A padded number must keep its width (ClusterShell's rule): 001-16 is a typing error.
    if len(first) != len(last) and any(len(number) > 1 and number[0] == "0" for number in (first, last)):
        raise ValueError(f" ({quoted(part)}: numbers of unequal width)")
    if int(first) > int(last):
        raise ValueError(f" ({quoted(part)}: it runs backwards)")
    return len(range(int(first), int(last) + 1, int(step or 1)))
