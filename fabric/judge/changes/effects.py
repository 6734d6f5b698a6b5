"""What each change did to bandwidth, whether or not anything was expected of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median

from fabric.judge.changes.course import BELOW, CourseLevel, PhaseCourse, WindowCourse, back, course
from fabric.judge.normal.samples import Sample, samples
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.verdict import ChangeEffect, WindowEffect

CLIFF_FROM, CLIFF_TO = 7e-4, 2e-3
"""
Raw bit error ratio between which RS(544,514) ("KP4") goes from repairing nearly every codeword to none worth having.

At 7e-4 a packet in 60,000 is lost, at 1e-3 one in 900, at 2e-3 half of them (binomial model, sim/phy/quality.py).
"""

UNCHANGED = 0.95
"""From this share on a bandwidth counts as kept (a choice, as ``cover.TOLERANCE``)."""


def corrected(change: Change) -> str:
    """What forward error correction makes of a ``ber`` change, in words; empty when it does not hide it."""
    ber = change.spec.raw_ber
    if not ber or float(ber) >= CLIFF_FROM:
        return ""
    cliff = f"{_ber(CLIFF_FROM)} to {_ber(CLIFF_TO)}"
    return f"raw BER {ber} is corrected by RS-FEC (cliff at about {cliff}): counters rise, bandwidth stays"


def _ber(value: float) -> str:
    mantissa, _, exponent = f"{value:.0e}".partition("e-")
    return f"{mantissa}e-{int(exponent)}"


def windows_report(
    phases: Sequence[Phase],
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    changes: Sequence[ChangeResult],
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


def phase_course(
    name: str, phases: Sequence[Phase], listed: Sequence[Sample], changes: Sequence[ChangeResult]
) -> PhaseCourse:
    """The course of one phase, relative to what was before its first fault (under the routing that it asks for)."""
    faults = [one for one in changes if one.change.is_fault]
    windows = [window for one in faults if one.change.phase == name for window in one.windows]
    first_s = min((window.began_s for window in windows), default=-inf)
    own = next((phase for phase in phases if phase.name == name), None)
    faulty = {one.change.phase for one in faults}
    others = [
        phase for phase in phases if own is not None and phase.where == own.where and phase.name not in faulty | {name}
    ]
    names = {phase.name for phase in others}
    instead = [sample for sample in listed if sample.phase in names]
    return course(name, listed, first_s, instead, ", ".join(dict.fromkeys(phase.written for phase in others)))


def backs(
    course: PhaseCourse, windows: Sequence[Window], fraction: float, *, holds: bool = False
) -> list[WindowCourse]:
    """What became of each window of one change, in order."""
    ends = [*(window.began_s for window in windows[1:]), inf]
    return [
        back(course, window, until_s, fraction, holds=holds) for window, until_s in zip(windows, ends, strict=False)
    ]


def _gbps(during: Sequence[CourseLevel]) -> tuple[float, float] | None:
    """
    The median bandwidth during and before, Gb/s, of the samples that have a share.

    None where they are of different sizes or kinds, whose middle would say nothing.
    """
    measured = [(level.value_gbps, level.share) for level in during if level.value_gbps and level.share]
    if not measured or len({(level.key.kind, level.key.name, level.key.size_bytes) for level in during}) > 1:
        return None
    return median(value for value, _ in measured), median(value / share for value, share in measured)


def _effect(result: ChangeResult, course: PhaseCourse) -> ChangeEffect:
    if not result.change.is_fault:
        return ChangeEffect(result.change.change_id)
    during = course.during(result.windows)
    shares = [level.share for level in during if level.share is not None]
    retained = median(shares) if shares else None
    windows = tuple(
        WindowEffect(window.began_s, window.ended_s, found.lost_s, found.seen_s)
        for window, found in zip(result.windows, backs(course, result.windows, BELOW), strict=True)
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
        note=corrected(result.change) if retained is not None and retained >= UNCHANGED else "",
    )
