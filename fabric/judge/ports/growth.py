"""
Zero growth of counters as a criterion of its own: what a port counted though it may not, how much, and when.

- symbol_errors: NVIDIA's windows, as always (``ber_window.py``).
- link_downed, link_recoveries: not once, on either link layer.
- pfc: paused for a greater share of some hour than the scenario allows, in either direction.
- retransmits: their counters together grow by more in some hour than the scenario allows.

Pauses and retransmissions grow on a good fabric, too, under incast and while something is altered anywhere. So they
are judged by the worst hour (or all of the time that was watched, if that is shorter), and not while a change of ours
was in force. What was not read, or only once, is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabric.judge.ports.steps import Step, Windows, steps_of
from fabric.model.outcome import Outcome
from fabric.model.sampling import (
    LINK_DOWNED,
    LINK_RECOVERIES,
    PFC,
    PFC_COUNTERS,
    PFC_TIMES,
    RETRANSMITS,
    CounterCourse,
    ZeroGrowth,
    counters_of,
)
from fabric.model.text import duration_text
from fabric.probes.sources import SLOWLY

HOUR_S = 3600.0
"""Rates are those of the worst hour (a choice: long enough that one burst of incast is no rate, short in a burn-in)."""


@dataclass(frozen=True, slots=True)
class PortGrowth:
    """
    What became of the criteria on one port.

    *bad* are counters that grew though they may not, *words* say by how much and when, *unread* are the criteria that
    were not measured.
    """

    bad: Mapping[str, Outcome]
    words: tuple[str, ...]
    unread: tuple[str, ...]


def growth_of(
    wanted: ZeroGrowth,
    courses: Mapping[str, CounterCourse],
    own: Windows,
    anywhere: Windows,
    *,
    every_s: float,
    ethernet: bool,
) -> PortGrowth:
    """A port by the courses of its counters; *own* changes are those of its cable or host, *anywhere* all."""
    bad: dict[str, Outcome] = {}
    words: list[str] = []
    unread: list[str] = []
    for criterion in wanted.criteria:
        names = counters_of(criterion, ethernet=ethernet)
        if not all(_was_watched(name, courses.get(name), every_s) for name in names):
            unread.append(criterion)
        read = {name: courses[name] for name in names if name in courses}
        if criterion in (LINK_DOWNED, LINK_RECOVERIES):
            found = [_never(name, course, own, every_s) for name, course in read.items()]
        elif criterion == PFC:
            found = [
                _paused(name, course, wanted.pfc_paused or 0.0, anywhere, every_s) for name, course in read.items()
            ]
        elif criterion == RETRANSMITS:
            found = [_sent_again(read, wanted.retransmits_per_hour or 0.0, anywhere, every_s)]
        else:
            found = []  # symbol errors: judged by their windows already
        for names_grown, text in found:
            bad.update(dict.fromkeys(names_grown, Outcome.FAIL))
            words += [text] if names_grown else []
    return PortGrowth(bad, tuple(words), tuple(unread))


_Found = tuple[tuple[str, ...], str]
"""The counters that grew too much (none: all is well), and what is said of them."""


def _was_watched(name: str, course: CounterCourse | None, every_s: float) -> bool:
    """It was read, and its host was asked again after that."""
    if course is None:
        return False
    known = [at_s for at_s, value in zip(course.at_s, course.values, strict=True) if value is not None]
    return bool(known) and course.until_s - known[0] >= _spacing_s(name, every_s)


def _spacing_s(name: str, every_s: float) -> float:
    return SLOWLY * every_s if name in PFC_COUNTERS else every_s


def _never(name: str, course: CounterCourse, own: Windows, every_s: float) -> _Found:
    steps = [step for step in steps_of(name, course, own, every_s)[0] if not step.ours]
    if not steps:
        return (), ""
    when = f"first after {_after(course, steps[0].at_s)}"
    last = f", last after {_after(course, steps[-1].at_s)}" if len(steps) > 1 else ""
    return (name,), f"zero growth: {name} grew by {sum(step.by for step in steps):,}, {when}{last}"


def _paused(name: str, course: CounterCourse, most: float, changes: Windows, every_s: float) -> _Found:
    steps = _not_ours(name, course, changes, every_s)
    worst = worst_hour(steps, _watched_s([course]))
    if worst is None or worst.by * 1e-6 <= most * worst.span_s:
        return (), ""
    share = worst.by * 1e-6 / worst.span_s
    way = "it was told to wait" if name == PFC_TIMES[0] else "it told the other end to wait"
    text = (
        f"zero growth: {name}: {way} {share:.1%} of the {_span(worst)} until {_after(course, worst.at_s)}, "
        f"allowed {most:.1%}"
    )
    return (name,), text


def _sent_again(read: Mapping[str, CounterCourse], most: float, changes: Windows, every_s: float) -> _Found:
    steps = sorted(
        (step for name, course in read.items() for step in _not_ours(name, course, changes, every_s)),
        key=lambda step: step.at_s,
    )
    worst = worst_hour(steps, _watched_s(read.values()))
    if worst is None or worst.by * HOUR_S <= most * worst.span_s:
        return (), ""
    inside = [step for step in steps if worst.at_s - worst.span_s < step.at_s <= worst.at_s]
    by_name: dict[str, int] = {}
    for step in inside:
        by_name[step.name] = by_name.get(step.name, 0) + step.by
    grew = ", ".join(f"{name} by {number:,}" for name, number in by_name.items())
    first = min(read.values(), key=lambda course: course.at_s[0])
    text = (
        f"zero growth: retransmits: {grew} in the {_span(worst)} until {_after(first, worst.at_s)}, "
        f"allowed {most:,g} an hour together"
    )
    return tuple(by_name), text


@dataclass(frozen=True, slots=True)
class Hour:
    """Most growth in any hour: by how much, until when, and how long that hour was (less, where less was watched)."""

    by: int
    at_s: float
    span_s: float


def worst_hour(steps: Sequence[Step], watched_s: float) -> Hour | None:
    """Of steps in order of time; None when nothing grew."""
    if not steps or watched_s <= 0.0:
        return None
    span_s = min(HOUR_S, watched_s)
    worst = Hour(0, steps[0].at_s, span_s)
    total, first = 0, 0
    for step in steps:
        total += step.by
        while steps[first].at_s <= step.at_s - span_s:
            total -= steps[first].by
            first += 1
        if total > worst.by:
            worst = Hour(total, step.at_s, span_s)
    return worst


def _not_ours(name: str, course: CounterCourse, changes: Windows, every_s: float) -> list[Step]:
    spacing_s = _spacing_s(name, every_s)
    return [step for step in steps_of(name, course, changes, spacing_s)[0] if not step.ours]


def _watched_s(courses: Iterable[CounterCourse]) -> float:
    return max((course.until_s - course.at_s[0] for course in courses if course.at_s), default=0.0)


def _after(course: CounterCourse, at_s: float) -> str:
    """How long it had been watched then."""
    return duration_text(max(0.0, at_s - course.at_s[0]))


def _span(worst: Hour) -> str:
    return "hour" if worst.span_s == HOUR_S else duration_text(worst.span_s)
