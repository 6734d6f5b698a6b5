"""Find where two JSON documents differ, and put it in words."""

import json
from collections.abc import Iterator
from itertools import islice
from math import isclose
from typing import Any

MOST_DIFFERENCES = 20
"""The most differing fields that are named (a choice)."""

_LONGEST = 80
_ABSENT = object()


def differing(stated: Any, again: Any, *, close: bool = False) -> list[str]:
    """
    Return in words where a JSON document differs from the one made again from the run's files; empty if nowhere.

    Every field counts, extra fields too. *close*: the last digits of a number may differ, as they do between machines.
    """
    lines = (
        f"{path or 'all of it'}: it says {in_words(one)}, the run's files say {in_words(other)}"
        for path, one, other in unlike(stated, again, close=close)
    )
    found = list(islice(lines, MOST_DIFFERENCES + 1))
    return [*found[:MOST_DIFFERENCES], "and more fields"] if len(found) > MOST_DIFFERENCES else found


def unlike(one: Any, other: Any, path: str = "", *, close: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield every place where two JSON documents differ, with both values; *close* as in ``differing``.

    Goes no deeper than the second document, however deep the first is.
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
    """Return a value of ``unlike`` as short text for people."""
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value[:_LONGEST] if isinstance(value, str) else value, ensure_ascii=False)
    return f"{text}..." if isinstance(value, str) and len(value) > _LONGEST else text
