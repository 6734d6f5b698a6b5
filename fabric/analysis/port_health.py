"""
What a port counted while a run worked: when which error counter grew, what our own changes explain, how bad it is.

- link_downed: FAIL on InfiniBand, MARGINAL on Ethernet (gcm's check-ib: ib* flaps are critical, eth* flaps a warning).
- link_error_recovery: MARGINAL from 1 on (Azure: investigate).
- symbol errors: NVIDIA's windows (``ber_window.py``). On Ethernet, which has no such counter, frames with a bad CRC are
  judged by the same windows (choice: each stands for at least one error behind the FEC).
- port_rcv_errors above 100, port_xmit_discards above 1,000: MARGINAL (Azure: investigate).
- a module above 70 C: MARGINAL (NVIDIA's UFM plugin isolates from there: TMAX).

Retransmissions (hw_counters) and waiting are shown and not judged: congestion makes them on a good fabric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from fabric.analysis.ber_window import BerVerdict, SymbolErrors, judge_ber
from fabric.model.change import ChangeResult
from fabric.model.counters import HOT_C, JUDGED, growth
from fabric.model.outcome import Outcome
from fabric.model.sampling import Course

SETTLE_S = 30.0
"""So long after a change the link may still train and be swept (choice: a subnet manager's usual sweep takes 10 s)."""

MANY = {"port_rcv_errors": 100, "port_xmit_discards": 1000}
ERRORS = ("symbol_error", "rx_crc_errors")

_WORDS = {
    "link_downed": ("time down", "times down"),
    "link_error_recovery": ("link recovery", "link recoveries"),
    "symbol_error": ("symbol error", "symbol errors"),
    "rx_crc_errors": ("frame with a bad CRC", "frames with a bad CRC"),
    "port_rcv_errors": ("receive error", "receive errors"),
    "port_xmit_discards": ("packet discarded", "packets discarded"),
}


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


@dataclass(frozen=True, slots=True)
class PortHealth:
    """
    One port, judged by its counters: outcome, what is wrong in words, and all its steps.

    *ber* is what its bit errors say, None where no counter of them could be read; *bad* are the counters that made the
    outcome, each with its own; *resets* counts how often somebody cleared a counter meanwhile.
    """

    host: str
    device: str
    outcome: Outcome
    words: tuple[str, ...]
    steps: tuple[Step, ...]
    bad: Mapping[str, Outcome]
    ber: BerVerdict | None
    resets: int = 0

    @property
    def component(self) -> str:
        """As the port is named in a verdict."""
        return f"{self.host}/{self.device}:port"


def port_health(
    host: str,
    device: str,
    courses: Mapping[str, Course],
    changes: Sequence[ChangeResult],
    *,
    every_s: float,
    line_rate_gbps: float,
    ethernet: bool,
) -> PortHealth | None:
    """A port by the courses of its counters (by name); None when none of them could be read."""
    read = {name: course for name, course in courses.items() if name in JUDGED and _known(course)}
    if not read:
        return None
    own = _windows(f"{host}/{device}", changes)
    steps: list[Step] = []
    resets = 0
    for name, course in read.items():
        found, cleared = _steps(name, course, own, every_s)
        steps += found
        resets += cleared
    counted = next((name for name in ERRORS if name in read), None)
    ber = None if counted is None else _ber(counted, read[counted], steps, line_rate_gbps)
    bad = {name: _outcome(name, steps, ber if name in ERRORS else None, ethernet=ethernet) for name in read}
    bad = {name: outcome for name, outcome in bad.items() if outcome is not Outcome.PASS}
    words = [counted_words(steps, name) for name in JUDGED if name in bad]
    if ber is not None and ber.outcome is Outcome.FAIL:
        words.append(ber.reason)
    heat_c = max((value for value in courses["module_c"].values if value is not None), default=0.0) if (
        "module_c" in courses
    ) else 0.0  # fmt: skip
    if heat_c > HOT_C:
        bad["module_c"] = Outcome.MARGINAL
        words.append(f"its module was at {heat_c:.0f} C, NVIDIA isolates above {HOT_C:.0f}")
    return PortHealth(
        host, device, Outcome.worst((Outcome.PASS, *bad.values())), tuple(words), tuple(steps), bad, ber, resets
    )


def counted_words(steps: Sequence[Step], name: str) -> str:
    """``3 link recoveries``, of one counter, without what was our own."""
    number = sum(step.by for step in steps if step.name == name and not step.ours)
    one, many = _WORDS[name]
    return f"{number:,} {one if number == 1 else many}"


def _known(course: Course) -> bool:
    return any(value is not None for value in course.values)


def _windows(port: str, changes: Sequence[ChangeResult]) -> list[tuple[float, float]]:
    """When a change of ours was in force on this cable, or on all of its host."""
    places = (port, port.partition("/")[0])
    return [
        (window.began_s, inf if window.ended_s is None else window.ended_s + SETTLE_S)
        for result in changes
        if result.change.component in places
        for window in result.windows
    ]


def _steps(
    name: str, course: Course, own: Sequence[tuple[float, float]], every_s: float
) -> tuple[list[Step], int]:  # fmt: skip
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


def _ber(name: str, course: Course, steps: Sequence[Step], line_rate_gbps: float) -> BerVerdict:
    """By NVIDIA's windows, over all the time that it was watched; what a change of ours made is taken off."""
    readings = [SymbolErrors(course.at_s[0], 0)]
    for step in steps:
        if step.name == name and not step.ours:
            count = readings[-1].count
            readings += [SymbolErrors(step.from_s, count), SymbolErrors(step.at_s, count + step.by)]
    readings.append(SymbolErrors(course.until_s, readings[-1].count))
    rising = readings[:1]
    for reading in readings[1:]:
        if reading.at_s > rising[-1].at_s:
            rising.append(reading)
        else:  # two steps one after the other share a moment
            rising[-1] = SymbolErrors(rising[-1].at_s, max(reading.count, rising[-1].count))
    return judge_ber(rising, line_rate_gbps)


def _outcome(name: str, steps: Sequence[Step], ber: BerVerdict | None, *, ethernet: bool) -> Outcome:
    number = sum(step.by for step in steps if step.name == name and not step.ours)
    if name in ERRORS:
        return Outcome.FAIL if ber is not None and ber.outcome is Outcome.FAIL else Outcome.PASS
    if number <= MANY.get(name, 0):
        return Outcome.PASS
    return Outcome.FAIL if name == "link_downed" and not ethernet else Outcome.MARGINAL
