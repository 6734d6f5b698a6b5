"""When a counter grew, by how much, and whether a change of ours explains it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from fabric.model.change import ChangeResult
from fabric.model.counters import growth
from fabric.model.sampling import Course

SETTLE_S = 30.0
"""So long after a change the link may still train and be swept (choice: a subnet manager's usual sweep takes 10 s)."""

Windows = Sequence[tuple[float, float]]
"""Times in which a change of ours was in force, and a little longer (seconds)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A counter grew by so much at some time from *from_s* to *at_s*, seconds; *ours*: a change of ours explains it."""

    name: str
    from_s: float
    at_s: float
    by: int
    ours: bool = False

    def touches(self, began_s: float, ended_s: float) -> bool:
        """Whether it may have been within a window."""
        return self.at_s > began_s and self.from_s < ended_s


def windows_of(changes: Iterable[ChangeResult]) -> list[tuple[float, float]]:
    """When these changes were in force."""
    return [
        (window.began_s, inf if window.ended_s is None else window.ended_s + SETTLE_S)
        for result in changes
        for window in result.windows
    ]


def steps_of(name: str, course: Course, own: Windows, every_s: float) -> tuple[list[Step], int]:
    """Its growths, and how often it was cleared; over a time in which it could not be read nothing is said."""
    found: list[Step] = []
    resets, before = 0, None
    for at_s, value in zip(course.at_s, course.values, strict=True):
        if value is not None and before is not None:
            grew = growth(name, int(before), int(value))
            resets += grew.reset
            from_s = at_s - every_s
            ours = any(at_s > began_s and from_s < ended_s for began_s, ended_s in own)
            if grew.by:
                found.append(Step(name, from_s, at_s, grew.by, ours))
        before = value
    return found, resets
