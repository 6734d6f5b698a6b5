"""What became of one part over the hours, in words: it fades, stepped down, dips, cannot bear warmth, came back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fabric.judge.course import shapes
from fabric.judge.course.findings import MOST_PROBES, Modules
from fabric.judge.course.rows import CourseRow, CourseRows
from fabric.model.part import Part

ALPHA = 1e-3
"""The chance that a part that is located has a course of a kind only by luck (a choice)."""

_MOST_ROWS = 500  # of more every so-many-th tells the course as well: its cost grows with their square

GONE = "gone"
"""The kind of the course of what failed and did not come back: the verdict of its probes says that already."""


def is_low(row: CourseRow, rows: CourseRows) -> bool:
    """Whether it is below what is normal by the floor and by five spreads."""
    return shapes.is_low(row.share, floor=rows.floors[row.of_class], sigma=rows.spreads[row.of_class])


def worst(own: Sequence[CourseRow]) -> tuple[str, ...]:
    """The ids of the lowest of them."""
    return tuple(one.probe.probe_id for one in sorted(own, key=lambda one: one.share)[:MOST_PROBES])


def course_of(
    component: str, own: Sequence[CourseRow], rows: CourseRows, modules: Modules, others: float
) -> tuple[str, str]:
    """
    The kind of the course of a part that is bad, and its text, from its *own* rows in order of time.

    *others*: how often what is healthy dips.
    """
    if _failed_midway(own):
        gone = [one for one in own if one.share == 0.0]
        return "came_back", (
            f"failed in {len(gone)} of {len(own)} probes, first at {hours(gone[0].at_s)}, last at "
            f"{hours(gone[-1].at_s)}, and came back"
        )
    if all(one.share == 0.0 for one in own if is_low(one, rows)):
        return GONE, "failed, and did not come back"
    for number, _ in Counter(one.of_class for one in own).most_common():
        alike = [one for one in own if one.of_class == number]
        alike = alike[:: -(-len(alike) // _MOST_ROWS)]
        found = _with_heat(component, alike, rows, modules) or _trending(alike, rows)
        if found is not None:
            return found
    return _dipping(own, rows, others)


def _failed_midway(own: Sequence[CourseRow]) -> bool:
    """
    Whether the transport gave up and a later probe of that kind went well again.

    One of another kind says nothing: an all-to-all stays in its host, and is well where no cable is.
    """
    failed: set[str] = set()
    for one in own:
        if one.share == 0.0:
            failed.add(one.probe.kind)
        elif one.probe.kind in failed:
            return True
    return False


def _with_heat(component: str, own: Sequence[CourseRow], rows: CourseRows, modules: Modules) -> tuple[str, str] | None:
    host, device = Part.of(component).place
    best: shapes.Heat | None = None
    for part, course in modules.get(host, {}).items():
        pairs = [(course.value_at(one.at_s), one.share) for one in own] if device in ("", part) else []
        known = [(float(celsius), share) for celsius, share in pairs if celsius is not None]
        if len(known) >= shapes.LEAST_POINTS:
            celsius, shares = np.array(known).T
            found = shapes.heat(celsius, shares, floor=rows.floors[own[0].of_class], alpha=ALPHA)
            if found is not None and (best is None or found.chance < best.chance):
                best = found
    if best is None:
        return None
    return "heat", (
        f"loses {-best.change:.0%} of its bandwidth when its module warms from {best.cold_c:.0f} to "
        f"{best.warm_c:.0f} C (rank correlation {best.rho:.2f} over {len(own)} probes)"
    )


def _trending(own: Sequence[CourseRow], rows: CourseRows) -> tuple[str, str] | None:
    at_s, shares = np.array([(one.at_s, one.share) for one in own]).T
    found = shapes.trend(at_s, shares, floor=rows.floors[own[0].of_class], alpha=ALPHA)
    if found is None:
        return None
    if found.kind == "step":
        return "step", _stepped(-found.change, found.at_s)
    length = hours(at_s[-1] - at_s[0], digits=0)
    return "drift", f"lost {-found.change:.0%} of its bandwidth gradually, over {length} ({len(own)} probes)"


def _dipping(own: Sequence[CourseRow], rows: CourseRows, others: float) -> tuple[str, str]:
    shares = np.array([one.share for one in own])
    low = np.array([is_low(one, rows) for one in own])
    found = shapes.dips(shares, low)
    since = shapes.low_since(low)
    if since is not None and since[1] < ALPHA:
        first = since[0]
        return "step", _stepped(1.0 - float(np.median(shares[first:]) / np.median(shares[:first])), own[first].at_s)
    if found.count > len(own) / 2:
        return "low", (
            f"slower than its peers in {found.count} of {found.n} probes: about {found.depth:.0%} of what they carry"
        )
    return "dips", (
        f"dips to {found.depth:.0%} in {found.count} of {found.n} probes (1 in {found.n / found.count:.0f}; 95 % "
        f"interval 1 in {1 / found.high:.0f} to 1 in {1 / max(found.low, 1e-9):.0f}), its peers in {others:.2g}"
    )


def _stepped(lost: float, at_s: float) -> str:
    return f"lost {lost:.0%} of its bandwidth at once, at about {hours(at_s)}, and kept it lost"


def hours(at_s: float, *, digits: int = 1) -> str:
    """A time in hours."""
    return f"{at_s / 3600.0:.{digits}f} h"
