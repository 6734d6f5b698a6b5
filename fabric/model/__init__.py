"""The words of the project as frozen dataclasses, without input or output; ``gathered`` groups values by key."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Shared = TypeVar("Shared", bound=Hashable)
Value = TypeVar("Value")


def gathered(pairs: Iterable[tuple[Shared, Value]]) -> dict[Shared, list[Value]]:
    """Group values by key; keys, and the values of each, stay in the order in which they come."""
    found: dict[Shared, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
