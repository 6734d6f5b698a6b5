"""What became of one part over the hours, in words: it fades, stepped down, dips, cannot bear warmth, came back."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf

import numpy as np
from scipy.special import betaincinv

from fabric.judge.course.rows import CourseRow
from fabric.judge.locate.cells import FaultyPart, Loss
from fabric.judge.locate.fit import OFTEN

_MOST_PROBES = 20  # as ``model.verdict.Suspect``

GONE = "gone"
"""The kind of the course of what failed and did not come back: the verdict of its probes says that already."""


def worst(own: Sequence[CourseRow]) -> tuple[str, ...]:
    """The ids of the lowest of them."""
    return tuple(one.probe.probe_id for one in sorted(own, key=lambda one: one.share)[:_MOST_PROBES])


def course_of(fault: FaultyPart, own: Sequence[CourseRow], others: float) -> tuple[str, str]:
    """
    The kind of the course of a part that is bad, and its text: what form the locator found its losses to have.

    *own* are its rows in order of time, *others* says how often what is healthy dips.
    """
    gone = [one for one in own if one.share == 0.0]
    if _came_back(own):
        return "came_back", (
            f"failed in {len(gone)} of {len(own)} probes, first at {hours(gone[0].at_s)}, last at "
            f"{hours(gone[-1].at_s)}, and came back"
        )
    low = [one for one in own if one.low]
    if len(gone) == len(low):
        return GONE, "failed, and did not come back"
    always = max(fault.losses, key=lambda one: (one.rho >= OFTEN[-1][0], one.loss))
    if fault.follows is not None:
        return _growing(fault, always, own)
    if fault.since_s > -inf and fault.until_s == inf and always.rho >= OFTEN[-1][0]:
        return (
            "step",
            f"lost {_lost(always):.0%} of its bandwidth at once, at about {hours(fault.since_s)}, and kept it lost",
        )
    count, n = len(low), len(own)
    depth = float(np.median([one.share for one in low])) if low else 1.0
    if count > n / 2:
        return "low", f"slower than its peers in {count} of {n} probes: about {depth:.0%} of what they carry"
    # The exact interval of a share (Clopper and Pearson 1934).
    least, most = betaincinv(count, n - count + 1, 0.025), betaincinv(count + 1, n - count, 0.975)
    return "dips", (
        f"dips to {depth:.0%} in {count} of {n} probes (1 in {n / count:.0f}; 95 % interval 1 in {1 / most:.0f} to "
        f"1 in {1 / least:.0f}), its peers in {others:.2g}"
    )


def _came_back(own: Sequence[CourseRow]) -> bool:
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


def _growing(fault: FaultyPart, most: Loss, own: Sequence[CourseRow]) -> tuple[str, str]:
    """With the hours, or with the warmth of its module."""
    assert fault.follows is not None
    lost, full, least = _lost(most), fault.follows.full, fault.follows.least
    if fault.follows.warm:
        return "heat", (
            f"loses {lost:.0%} of its bandwidth when its module warms to {full:.0f} C, some from {least:.0f} C on "
            f"(over {len(own)} probes)"
        )
    length = hours(own[-1].at_s - own[0].at_s, digits=0)
    return "drift", f"lost {lost:.0%} of its bandwidth by and by, over {length} ({len(own)} probes)"


def _lost(one: Loss) -> float:
    return 1.0 - exp(-one.loss)


def hours(at_s: float, *, digits: int = 1) -> str:
    """A time in hours."""
    return f"{at_s / 3600.0:.{digits}f} h"
