"""
What each change did to bandwidth, whether or not anything was expected of it.

The course of a phase in time: its probes as levels, each relative to the median of its own key before any change. A
probe is one level for all of its duration: what happens within it is averaged, so nothing is known more finely than
the spacing of the probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

from fabric.judge.normal.keys import COLLECTIVE_FLOOR, Sample, SampleKey, grouped, samples
from fabric.model import gathered
from fabric.model.change import Change, ChangeResult, Changes, Window
from fabric.model.probe import Probe, Results
from fabric.model.scenario import Phase
from fabric.model.verdict import ChangeEffect, WindowEffect

KEPT = 1 - COLLECTIVE_FLOOR
"""From this share of what was before on a bandwidth counts as kept: what is lost by less is not acted upon anywhere."""


@dataclass(frozen=True, slots=True)
class CourseLevel:
    """One probe: what it carried (0: the transport gave it up), and what was carried before; executor's seconds."""

    key: SampleKey
    started_s: float
    ended_s: float
    gbps: float
    before_gbps: float

    @property
    def share(self) -> float:
        """Of the bandwidth before."""
        return self.gbps / self.before_gbps


@dataclass(frozen=True, slots=True)
class PhaseCourse:
    """
    The levels of one phase, by time of ending; *before* counts those that ended before the first change.

    *reference* names what the levels are relative to: "before it", or the phases used instead; empty: nothing was.
    *spacing_s* is the median time from one end to the next of the same key; None with one sample a key.
    """

    levels: tuple[CourseLevel, ...]
    before: int
    reference: str
    spacing_s: float | None

    def during(self, windows: Sequence[Window]) -> list[CourseLevel]:
        """Those of which some part was within a window."""
        return [
            level
            for level in self.levels
            if any(level.ended_s > window.began_s and level.started_s < window.until_s for window in windows)
        ]


@dataclass(frozen=True, slots=True)
class WindowCourse:
    """
    How one window showed, seconds; *lost_s* after its begin a sample was below, None: none was.

    What is asked (back again, or felt at all) was seen *seen_s* after the moment from which it counts, at the end of
    the sample that showed it; None: it was not. It was certainly not so *not_before_s* after it. *after* counts the
    samples that began later.
    """

    lost_s: float | None
    seen_s: float | None
    not_before_s: float
    after: int


def backs(
    course: PhaseCourse, windows: Sequence[Window], fraction: float, *, holds: bool = False
) -> list[WindowCourse]:
    """
    What became of each window of one change: when every key that had lost was back, until the next one's begin.

    It counts from a window's end; where the change *holds*, from its begin, while it is in force, and for good.
    """
    ends = [*(window.began_s for window in windows[1:]), inf]
    found = []
    for window, until_s in zip(windows, ends, strict=False):
        from_s = window.began_s if holds else window.until_s
        meanwhile = (one for one in course.levels if one.ended_s > window.began_s and one.started_s < until_s)
        of_keys = grouped(meanwhile, lambda level: level.key).values()
        courses = [_key_back(levels, window, from_s, fraction, holds=holds) for levels in of_keys]
        lost = [one.lost_s for one in courses if one.lost_s is not None]
        # Keys that lost nothing (pairs elsewhere in the network) say nothing of how long the others took.
        telling = [one for one in courses if one.lost_s is not None or one.not_before_s > -inf] or courses
        seen = [one.seen_s for one in telling if one.seen_s is not None]
        found.append(
            WindowCourse(
                lost_s=min(lost, default=None),
                seen_s=max(seen) if seen and len(seen) == len(telling) else None,
                not_before_s=max([0.0, *(one.not_before_s for one in telling)]),
                after=sum(one.after for one in courses),
            )
        )
    return found


def _key_back(
    levels: Sequence[CourseLevel], window: Window, from_s: float, fraction: float, *, holds: bool
) -> WindowCourse:
    """
    One key, until the first sample that shows it back: what comes later has other causes, unless the change *holds*.

    *not_before_s* is minus infinity where it was never below.
    """
    good = [level.started_s >= from_s and level.share >= fraction for level in levels]
    relevant = levels if holds or True not in good else levels[: good.index(True) + 1]
    bad = [level for level in relevant if level.share < fraction]
    last_s = max((level.ended_s for level in bad), default=-inf)
    back = [level.ended_s - from_s for level, is_good in zip(levels, good, strict=True) if is_good]
    return WindowCourse(
        lost_s=min((level.ended_s - window.began_s for level in relevant if level.share < KEPT), default=None),
        seen_s=min((ended_s for ended_s in back if ended_s + from_s >= last_s), default=None),
        not_before_s=max((level.started_s if level.gbps else level.ended_s for level in bad), default=-inf) - from_s,
        after=sum(level.started_s >= from_s for level in levels),
    )


def _medians(samples: Iterable[Sample]) -> dict[SampleKey, float]:
    gbps = gathered((one.key, one.value_gbps) for one in samples if one.value_gbps)
    return {key: median(values) for key, values in gbps.items()}


def _level(sample: Sample, reference_gbps: float | None) -> CourseLevel | None:
    """None for what is no sample of the network: never run, an error of ours, or nothing to compare with."""
    result, gbps = sample.result, 0.0 if sample.gave_up else sample.value_gbps
    if result is None or gbps is None or reference_gbps is None:
        return None
    return CourseLevel(sample.key, result.started_s, result.ended_s, gbps, reference_gbps)


CLIFF = "7e-4", "2e-3"
"""
Raw bit error ratio between which RS(544,514) ("KP4") goes from repairing nearly every codeword to none worth having.

At 7e-4 a packet in 60,000 is lost, at 1e-3 one in 900, at 2e-3 half of them (binomial model, sim/phy/quality.py).
"""


def corrected(change: Change) -> str:
    """What forward error correction makes of a ``ber`` change, in words; empty when it does not hide it."""
    ber = change.spec.raw_ber
    if not ber or float(ber) >= float(CLIFF[0]):
        return ""
    cliff = " to ".join(CLIFF)
    return f"raw BER {ber} is corrected by RS-FEC (cliff at about {cliff}): counters rise, bandwidth stays"


def windows_report(
    phases: Sequence[Phase], probes: Sequence[Probe], results: Results, changes: Changes
) -> tuple[ChangeEffect, ...]:
    """
    One effect for each change, in the same order.

    Where a change holds from before the first probe there is nothing before it in its phase: then phases of the same
    matrix values in which no fault was made are taken instead; not for a toggle, which holds in those as well.
    """
    if not changes:
        return ()
    listed = list(samples(probes, results))
    courses = {name: phase_course(name, phases, listed, changes) for name in {one.change.phase for one in changes}}
    return tuple(_effect(result, courses[result.change.phase]) for result in changes)


def phase_course(name: str, phases: Sequence[Phase], listed: Sequence[Sample], changes: Changes) -> PhaseCourse:
    """
    The course of one phase, relative to what was before its first fault (under the routing that it asks for).

    When nothing was measured before that, levels are relative to other phases under the same routing without a fault.
    """
    faults = [one for one in changes if one.change.is_fault]
    windows = [window for one in faults if one.change.phase == name for window in one.windows]
    first_s = min((window.began_s for window in windows), default=-inf)
    listed = [one for one in listed if one.largest]
    own = [one for one in listed if one.phase == name and one.result is not None]
    early = [one for one in own if one.result is not None and one.result.ended_s <= first_s]
    medians, before, reference = _medians(early), len(early), "before it"
    if not medians:
        where = {phase.where for phase in phases if phase.name == name}
        faulty = {one.change.phase for one in faults} | {name}
        others = {phase.name: phase.written for phase in phases if phase.where in where and phase.name not in faulty}
        medians, before = _medians(one for one in listed if one.phase in others), 0
        reference = ", ".join(dict.fromkeys(others.values())) if medians else ""
    levels = [level for one in own if (level := _level(one, medians.get(one.key))) is not None]
    levels.sort(key=lambda level: (level.ended_s, level.started_s, level.key.hosts))
    of_keys = grouped(levels, lambda level: level.key).values()
    steps = [after.ended_s - before.ended_s for own in of_keys for before, after in pairwise(own)]
    return PhaseCourse(tuple(levels), before, reference if levels else "", median(steps) if steps else None)


def _gbps(during: Sequence[CourseLevel]) -> tuple[float, float] | None:
    """
    The median bandwidth during and before, Gb/s, of the samples that have a share.

    None where they are of different sizes or kinds, whose middle would say nothing.
    """
    measured = [level for level in during if level.gbps]
    if not measured or len({(level.key.kind, level.key.name, level.key.size_bytes) for level in during}) > 1:
        return None
    return median(level.gbps for level in measured), median(level.before_gbps for level in measured)


def _effect(result: ChangeResult, course: PhaseCourse) -> ChangeEffect:
    if not result.change.is_fault:
        return ChangeEffect(result.change.change_id)
    during = course.during(result.windows)
    shares = [level.share for level in during if level.gbps]
    retained = median(shares) if shares else None
    windows = tuple(
        WindowEffect(window.began_s, window.ended_s, found.lost_s, found.seen_s)
        for window, found in zip(result.windows, backs(course, result.windows, KEPT), strict=True)
    )
    return ChangeEffect(
        change_id=result.change.change_id,
        retained=retained,
        reference=course.reference if during else "",
        samples=len(during),
        given_up=len(during) - len(shares),
        spacing_s=course.spacing_s,
        windows=windows,
        gbps=_gbps(during),
        note=corrected(result.change) if retained is not None and retained >= KEPT else "",
    )
