"""When a counter grew, by how much, and whether a change of ours explains it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse, growth

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


def steps_of(name: str, course: CounterCourse, own: Windows, every_s: float) -> tuple[list[Step], int]:
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


ERRORS_TO_SEE = 3.0
"""With none seen where 3 were expected, the expectation is wrong with 95 % confidence (exp(-3) = 0.05)."""


@dataclass(frozen=True, slots=True)
class BerWindow:
    """A time to watch, in seconds, and the BER that must not be exceeded in it."""

    duration_s: float
    ber: float

    def errors_allowed(self, line_rate_gbps: float) -> float:
        """How many errors that BER makes in the window: 2.88 at 400 Gb/s, 1e-14 and 720 s."""
        return line_rate_gbps * 1e9 * self.duration_s * self.ber


RETURN_TO_SERVICE = (BerWindow(720.0, 1e-14), BerWindow(7500.0, 1e-15))
"""The windows of the plugin's README, in seconds: 12 and 125 minutes."""


@dataclass(frozen=True, slots=True)
class SymbolErrors:
    """A reading of a port's symbol error counter: seconds on the host's clock, and the count."""

    at_s: float
    count: int


@dataclass(frozen=True, slots=True)
class BerVerdict:
    """PASS, FAIL or INCONCLUSIVE, why, and how many seconds more must be watched (0 when it is decided)."""

    outcome: Outcome
    reason: str
    left_s: float = 0.0


def observation_s(ber: float, line_rate_gbps: float) -> float:
    """Seconds without an error after which a link's BER is no higher than *ber*, with 95 % confidence."""
    if not 0.0 < ber < 1.0 or line_rate_gbps <= 0.0:
        raise ValueError(f"a BER between 0 and 1 and a positive line rate are needed, got {ber:g}, {line_rate_gbps:g}")
    return ERRORS_TO_SEE / (ber * line_rate_gbps * 1e9)


def judge_ber(
    readings: Sequence[SymbolErrors], line_rate_gbps: float, windows: Sequence[BerWindow] = RETURN_TO_SERVICE
) -> BerVerdict:
    """
    Judge the growth of the counter over *windows*, each from every reading on.

    More errors than allowed FAIL at once: watching longer cannot take them back. Without, PASS takes a time as long as
    the longest window; before it is INCONCLUSIVE. A counter that went backwards (reset, or the host booted) is
    INCONCLUSIVE: what happened meanwhile is not known. *readings* are in order of time.
    """
    if len(readings) < 2:
        return BerVerdict(Outcome.INCONCLUSIVE, "fewer than two readings", max(w.duration_s for w in windows))
    for before, after in pairwise(readings):
        if after.at_s <= before.at_s:
            raise ValueError(f"readings are not in order of time: {after.at_s:g} s after {before.at_s:g} s")
        if after.count < before.count:
            left_s = max(window.duration_s for window in windows)
            reason = f"the counter went from {before.count} to {after.count}: it was reset while it was watched"
            return BerVerdict(Outcome.INCONCLUSIVE, reason, left_s)
    for window in windows:
        errors = _most_errors(readings, window.duration_s)
        allowed = window.errors_allowed(line_rate_gbps)
        if errors > allowed:
            text = f"{errors} symbol errors within {window.duration_s:g} s, {allowed:.3g} allowed (BER {window.ber:g})"
            return BerVerdict(Outcome.FAIL, text)
    watched_s = readings[-1].at_s - readings[0].at_s
    longest_s = max(window.duration_s for window in windows)
    errors = readings[-1].count - readings[0].count
    if watched_s < longest_s:
        reason = f"{errors} symbol errors in {watched_s:g} s: {longest_s:g} s are needed"
        return BerVerdict(Outcome.INCONCLUSIVE, reason, longest_s - watched_s)
    return BerVerdict(Outcome.PASS, f"{errors} symbol errors in {watched_s:g} s")


def _most_errors(readings: Sequence[SymbolErrors], duration_s: float) -> int:
    """The largest growth between two readings that lie no further apart than the window (with two pointers)."""
    most, first = 0, 0
    for last, reading in enumerate(readings):
        while reading.at_s - readings[first].at_s > duration_s:
            first += 1
        if first < last:
            most = max(most, reading.count - readings[first].count)
    return most
