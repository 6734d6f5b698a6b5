"""What each change did to bandwidth, whether or not anything was expected of it.

The course of a phase is its probes as levels over time, each relative to the median of its own key before any change.
A probe is one level for its whole duration: it averages what happens within it, so the spacing of the probes is the
resolution in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
"""Bandwidth counts as kept from this share of the earlier bandwidth on: nobody acts upon a smaller loss."""


@dataclass(frozen=True, slots=True)
class CourseLevel:
    """One probe: what it carried (0: the transport gave up), and its reference before; times in executor's seconds."""

    key: SampleKey
    started_s: float
    ended_s: float
    gbps: float
    before_gbps: float

    @property
    def share(self) -> float:
        """Return the share of the earlier bandwidth that it carried."""
        return self.gbps / self.before_gbps


@dataclass(frozen=True, slots=True)
class PhaseCourse:
    """
    The levels of one phase, ordered by end time; *before* counts those that ended before the first change.

    *reference* names what the levels are relative to: "before it", or the phases used instead; empty if there are no
    levels. *spacing_s* is the median time from one end to the next of the same key; None with one sample per key.
    """

    levels: tuple[CourseLevel, ...]
    before: int
    reference: str
    spacing_s: float | None

    def during(self, windows: Sequence[Window]) -> list[CourseLevel]:
        """Return the levels that overlap one of the windows."""
        return [
            level
            for level in self.levels
            if any(level.ended_s > window.began_s and level.started_s < window.until_s for window in windows)
        ]


@dataclass(frozen=True, slots=True)
class WindowCourse:
    """
    How bandwidth went in and after one window; times in seconds.

    *lost_s* after the window's begin the first sample with a loss ended; None if there was none. Bandwidth was seen
    back *seen_s* after the moment from which time counts, at the end of the sample that showed it; None if it was not.
    Until *not_before_s* after that moment it was certainly not back. *after* counts the samples that began later.
    """

    lost_s: float | None
    seen_s: float | None
    not_before_s: float
    after: int


def recoveries(
    course: PhaseCourse, windows: Sequence[Window], fraction: float, *, holds: bool = False
) -> Iterator[WindowCourse]:
    """
    Yield for each window of one change when every key that had lost was back, until the next window begins.

    Time counts from the end of a window. If the change *holds*, it counts from the window's begin, and bandwidth must
    then stay back while the change is in force.
    """
    ends = [*(window.began_s for window in windows[1:]), inf]
    for window, until_s in zip(windows, ends, strict=False):
        from_s = window.began_s if holds else window.until_s
        meanwhile = (one for one in course.levels if one.ended_s > window.began_s and one.started_s < until_s)
        of_keys = grouped(meanwhile, lambda level: level.key).values()
        courses = [_key_recovery(levels, window, from_s, fraction, holds=holds) for levels in of_keys]
        lost = [one.lost_s for one in courses if one.lost_s is not None]
        # Keys that lost nothing (pairs elsewhere in the network) say nothing of how long other keys took.
        telling = [one for one in courses if one.lost_s is not None or one.not_before_s > -inf] or courses
        seen = [one.seen_s for one in telling if one.seen_s is not None]
        yield WindowCourse(
            lost_s=min(lost, default=None),
            seen_s=max(seen) if seen and len(seen) == len(telling) else None,
            not_before_s=max([0.0, *(one.not_before_s for one in telling)]),
            after=sum(one.after for one in courses),
        )


def _key_recovery(
    levels: Sequence[CourseLevel], window: Window, from_s: float, fraction: float, *, holds: bool
) -> WindowCourse:
    """
    Do as ``recoveries`` for one key and window, up to the first sample that shows it back.

    Later losses have other causes, unless the change *holds*. *not_before_s* is minus infinity if the key never lost.
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
    """Return the level of a sample; None if it never ran, was an error of ours, or has no reference."""
    result, gbps = sample.result, 0.0 if sample.gave_up else sample.value_gbps
    if result is None or gbps is None or reference_gbps is None:
        return None
    return CourseLevel(sample.key, result.started_s, result.ended_s, gbps, reference_gbps)


CLIFF = "7e-4", "2e-3"
"""
The raw bit error ratios up to which RS(544,514) ("KP4") repairs nearly every codeword, and from which too few to help.

At 7e-4 one packet in 60,000 is lost, at 1e-3 one in 900, at 2e-3 half of them (binomial model, sim/phy/quality.py).
"""


def hidden_by_fec(change: Change) -> str:
    """Return a note that forward error correction hides a ``ber`` change; empty if it does not."""
    ber = change.spec.raw_ber
    if not ber or float(ber) >= float(CLIFF[0]):
        return ""
    cliff = " to ".join(CLIFF)
    return f"raw BER {ber} is corrected by RS-FEC (cliff at about {cliff}): counters rise, bandwidth stays"


def windows_report(
    phases: Sequence[Phase], probes: Sequence[Probe], results: Results, changes: Changes
) -> tuple[ChangeEffect, ...]:
    """
    Return one effect for each change, in the same order.

    A change that holds from before the first probe has nothing before it in its phase. Then phases of the same matrix
    values without a fault are the reference. A toggle has no measured effect: it holds in those phases as well.
    """
    if not changes:
        return ()
    listed = list(samples(probes, results))
    courses = {name: phase_course(name, phases, listed, changes) for name in {one.change.phase for one in changes}}
    return tuple(_effect(result, courses[result.change.phase]) for result in changes)


def phase_course(name: str, phases: Sequence[Phase], listed: Sequence[Sample], changes: Changes) -> PhaseCourse:
    """
    Return the course of one phase, relative to what it measured before its first fault.

    If it measured nothing before that, levels are relative to other phases of the same matrix values (such as routing)
    without a fault.
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
    Return the median bandwidth during and before, Gb/s, over the samples that carried something.

    Return None if they are of different sizes or kinds: their median would say nothing.
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
        for window, found in zip(result.windows, recoveries(course, result.windows, KEPT), strict=True)
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
        note=hidden_by_fec(result.change) if retained is not None and retained >= KEPT else "",
    )
