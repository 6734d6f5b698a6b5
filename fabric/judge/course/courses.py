"""What became of one part over the hours, in words: it fades, stepped down, dips, cannot bear warmth, came back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import exp, inf

import numpy as np
from scipy.special import betaincinv

from fabric.judge.course.rows import CourseRow, hours
from fabric.judge.locate.steps import next_step
from fabric.judge.locate.structure import OFTEN, FaultyPart, Floats
from fabric.judge.normal.keys import floor_of
from fabric.judge.normal.peers import LEAST_PEERS
from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part

ALPHA = 1e-3
"""The chance that a healthy part seems to lose with time or warmth (a choice)."""

LEAST_WARMING_C = 5.0
"""A temperature that moved less explains nothing (a choice)."""

_MOST_ROWS = 500  # of more every so-many-th tells the course as well: its cost grows with their square

GONE = "gone"
"""The kind of the course of what failed and did not come back: the verdict of its probes says that already."""

CAME_BACK = "came_back"
"""Of what failed and was well again later."""

_MOST_PROBES = 20  # as ``model.verdict.Suspect``
_NEXT = {
    "drift": "clean or change the cable and the module: it gets worse by itself",
    "step": "look up what happened there at that time, then reseat the cable and measure again",
    "heat": "look after its cooling (fan, airflow, heat sink of the module), then measure again under load",
    "low": "clean or change the cable and the module; if that does not help, look at its host",
    "dips": "change the cable and the module, then measure it again as often as here",
    CAME_BACK: "change the cable and the module: what fails and comes back fails again",
}
_AT_CABLES = ("rnic", "link", "host", "path")
_AT_RNIC = (
    "run loopback on {device} now: if it is slow, it is the RNIC or its PCIe link; if it is as fast as others, it is "
    "the port, the cable or the leaf port: then swap the cable first"
)


def course_step(component: str, kind: str, course: str, rivals: Sequence[str]) -> str:
    """What an engineer does next about a part of some kind with such a course."""
    part = Part.of(component)
    if course in ("low", "dips") and f"{part}:{PORT}" in rivals:
        return _AT_RNIC.format(device=part.item)
    return _NEXT[course] if kind in _AT_CABLES and course in _NEXT else next_step(kind, Outcome.FAIL)


def worst(own: Sequence[CourseRow]) -> tuple[str, ...]:
    """The ids of the lowest of them."""
    return tuple(one.probe.probe_id for one in sorted(own, key=lambda one: one.share)[:_MOST_PROBES])


def course_of(
    fault: FaultyPart, own: Sequence[CourseRow], others: float, celsius: Callable[[Floats], Floats] | None = None
) -> tuple[str, str]:
    """
    The kind of the course of a part that is bad, and its text: what form the locator found its losses to have.

    *own* are its rows in order of time, *others* says how often what is healthy dips, *celsius* how warm its module was
    at some times.
    """
    gone = [one for one in own if one.share == 0.0]
    if _came_back(own):
        return CAME_BACK, (
            f"failed in {len(gone)} of {len(own)} probes, first at {hours(gone[0].at_s)}, last at "
            f"{hours(gone[-1].at_s)}, and came back"
        )
    low = [one for one in own if one.low]
    if len(gone) == len(low):
        return GONE, "failed, and did not come back"
    most = max(fault.losses, key=lambda one: (one.rho >= OFTEN, one.loss))
    with_heat = _with_heat(fault, own, celsius)
    if with_heat:
        return "heat", with_heat
    lost = f"lost {1 - exp(-most.loss):.0%} of its bandwidth"
    if fault.follows is not None:
        return "drift", f"{lost} gradually, over {hours(own[-1].at_s - own[0].at_s, digits=0)} ({len(own)} probes)"
    if fault.since_s > -inf and fault.until_s == inf and most.rho >= OFTEN:
        return "step", f"{lost} at once, at about {hours(fault.since_s)}, and kept it lost"
    if fault.until_s < inf and most.rho >= OFTEN:
        return "low", f"{lost} from {hours(fault.since_s)} to {hours(fault.until_s)}, and then it was well again"
    count, n = len(low), len(own)
    depth = float(np.median([one.share for one in low]))
    if count > n / 2:
        return "low", f"slower than its peers in {count} of {n} probes: about {depth:.0%} of what they carry"
    # The exact interval of a share (Clopper and Pearson 1934).
    least, often = betaincinv(count, n - count + 1, 0.025), betaincinv(count + 1, n - count, 0.975)
    return "dips", (
        f"dips to {depth:.0%} in {count} of {n} probes (1 in {n / count:.0f}; 95 % interval 1 in {1 / often:.0f} to "
        f"1 in {1 / least:.0f}), its peers in {f'1 of {1 / others:,.0f}' if others > 0 else 'none'}"
    )


def lost_along(x: Floats, shares: Floats) -> float:
    """What is lost from the least *x* to the most, by the median slope; 0 where chance may look so (Kendall's tau)."""
    from scipy.stats import kendalltau, theilslopes

    if kendalltau(x, shares, alternative="less").pvalue >= ALPHA:
        return 0.0
    return float(-theilslopes(shares, x).slope * np.ptp(x))


def _with_heat(fault: FaultyPart, own: Sequence[CourseRow], celsius: Callable[[Floats], Floats] | None) -> str:
    """What it loses with the warmth of its module while it is bad, in probes of one kind; empty where it does not."""
    if celsius is None:
        return ""
    (of_class, _), *_ = Counter(one.of_class for one in own).most_common()
    alike = [one for one in own if one.of_class == of_class and one.at_s >= fault.since_s]
    alike = alike[:: -(-len(alike) // _MOST_ROWS)]
    warmth, shares = celsius(np.array([one.at_s for one in alike])), np.array([one.share for one in alike])
    known = np.isfinite(warmth)
    if known.sum() < LEAST_PEERS or np.ptp(warmth[known]) < LEAST_WARMING_C:
        return ""
    lost, (cold, warm) = lost_along(warmth[known], shares[known]), np.quantile(warmth[known], (0.0, 1.0))
    if lost < floor_of(alike[0].probe.kind):
        return ""
    return (
        f"loses {lost:.0%} of its bandwidth when its module warms from {cold:.0f} to {warm:.0f} C ({len(alike)} probes)"
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
