"""The words of the house as frozen dataclasses, no input or output; and what shares a key, together."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Shared = TypeVar("Shared", bound=Hashable)
Value = TypeVar("Value")


def gathered(pairs: Iterable[tuple[Shared, Value]]) -> dict[Shared, list[Value]]:
    """Of each key the values that come with it, both in the order in which they come."""
    found: dict[Shared, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
