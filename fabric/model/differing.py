"""Where two JSON documents differ, and how to say it."""

import json
from collections.abc import Iterator
from itertools import islice
from math import isclose
from typing import Any

MOST_DIFFERENCES = 20
"""So many fields that are not as they should be are named (a choice)."""

_LONGEST = 80
_ABSENT = object()


def differing(stated: Any, again: Any, *, close: bool = False) -> list[str]:
    """
    In which fields a JSON document says other than the same made again from the run's files, in words; empty in none.

    Every field counts, also one too many. *close*: the last digits of a number may differ, as they do between machines.
    """
    lines = (
        f"{path or 'all of it'}: it says {in_words(one)}, the run's files say {in_words(other)}"
        for path, one, other in unlike(stated, again, close=close)
    )
    found = list(islice(lines, MOST_DIFFERENCES + 1))
    return [*found[:MOST_DIFFERENCES], "and more fields"] if len(found) > MOST_DIFFERENCES else found


def unlike(one: Any, other: Any, path: str = "", *, close: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """
    Every place where two JSON documents differ, and what stands there in each; *close* as ``differing``.

    Goes no deeper than the other one, however deep the first is.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            inner = f"{path}.{name[:_LONGEST]}" if path else name[:_LONGEST]
            yield from unlike(one.get(name, _ABSENT), other.get(name, _ABSENT), inner, close=close)
    elif isinstance(one, list) and isinstance(other, list):
        pairs = enumerate(zip(one, other, strict=False))
        inside = (found for at, pair in pairs for found in unlike(*pair, f"{path}[{at}]", close=close))
        if len(one) == len(other):
            yield from inside
        else:
            yield path, one, other
            yield from islice(inside, 1)
    elif type(one) is not type(other) or not (one == other or _close(one, other, close)):
        yield path, one, other


def _close(one: object, other: object, close: bool) -> bool:
    return close and isinstance(one, float) and isinstance(other, float) and isclose(one, other, rel_tol=1e-9)


def in_words(value: object) -> str:
    """A value of ``unlike`` for people, not too long."""
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value[:_LONGEST] if isinstance(value, str) else value, ensure_ascii=False)
    return f"{text}..." if isinstance(value, str) and len(value) > _LONGEST else text
