"""
What a port counted while a run worked: when which error counter grew, what our own changes explain, how bad it is.

- link_downed: FAIL on InfiniBand, MARGINAL on Ethernet (gcm's check-ib: ib* flaps are critical, eth* flaps a warning).
- link_error_recovery: MARGINAL from 1 on (Azure: investigate).
- symbol errors: NVIDIA's windows (``ber_window.py``). On Ethernet, which has no such counter, frames with a bad CRC are
  judged by the same windows (choice: each stands for at least one error behind the FEC).
- port_rcv_errors above 100, port_xmit_discards above 1,000: MARGINAL (Azure: investigate).
- a module above 70 C: MARGINAL (NVIDIA's UFM plugin isolates from there: TMAX).

Retransmissions (hw_counters), pauses and waiting are shown and not judged, because congestion makes them on a good
fabric; a scenario that says how much is too much has them judged (``zero_growth.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabric.judge.ports.growth import PortGrowth, growth_of
from fabric.judge.ports.steps import BerVerdict, Step, SymbolErrors, judge_ber, steps_of, windows_of
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import HOT_C, JUDGED, CounterCourse, ZeroGrowth
from fabric.model.verdict import ProbeVerdict, Suspect

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
class PortHealth:
    """
    One port, judged by its counters: outcome, what is wrong in words, and all its steps.

    *ber* is what its bit errors say, None where no counter of them could be read; *bad* are the counters that made the
    outcome, each with its own; *resets* counts how often somebody cleared a counter meanwhile. *unread* are the
    criteria of the scenario's zero growth that were not measured.
    """

    host: str
    device: str
    outcome: Outcome
    words: tuple[str, ...]
    steps: tuple[Step, ...]
    bad: Mapping[str, Outcome]
    ber: BerVerdict | None
    resets: int = 0
    unread: tuple[str, ...] = ()

    @property
    def component(self) -> str:
        """As the port is named in a verdict."""
        return f"{self.host}/{self.device}:port"


def port_health(
    host: str,
    device: str,
    courses: Mapping[str, CounterCourse],
    changes: Sequence[ChangeResult],
    *,
    every_s: float,
    line_rate_gbps: float,
    ethernet: bool,
    zero_growth: ZeroGrowth | None = None,
) -> PortHealth | None:
    """A port by the courses of its counters (by name); None when none of them could be read and none had to be."""
    read = {name: course for name, course in courses.items() if name in JUDGED and _known(course)}
    if not read and zero_growth is None:
        return None
    own = windows_of(_own(f"{host}/{device}", changes))
    steps: list[Step] = []
    resets = 0
    for name, course in read.items():
        found, cleared = steps_of(name, course, own, every_s)
        steps += found
        resets += cleared
    counted = next((name for name in ERRORS if name in read), None)
    ber = None if counted is None else _ber(counted, read[counted], steps, line_rate_gbps)
    bad = {name: _outcome(name, steps, ber if name in ERRORS else None, ethernet=ethernet) for name in read}
    bad = {name: outcome for name, outcome in bad.items() if outcome is not Outcome.PASS}
    words = [counted_words(steps, name) for name in JUDGED if name in bad]
    if ber is not None and ber.outcome is Outcome.FAIL:
        words.append(ber.reason)
    heat_c = _hottest(courses.get("module_c"))
    if heat_c > HOT_C:
        bad["module_c"] = Outcome.MARGINAL
        words.append(f"its module was at {heat_c:.0f} C, NVIDIA isolates above {HOT_C:.0f}")
    asked = PortGrowth({}, (), ())
    if zero_growth is not None:
        anywhere = windows_of(changes)
        asked = growth_of(zero_growth, courses, own, anywhere, every_s=every_s, ethernet=ethernet)
    bad |= asked.bad
    words += asked.words
    unshown = (Outcome.INCONCLUSIVE,) if asked.unread else ()
    outcome = Outcome.worst((Outcome.PASS, *bad.values(), *unshown))
    return PortHealth(host, device, outcome, tuple(words), tuple(steps), bad, ber, resets, asked.unread)


def _hottest(course: CounterCourse | None) -> float:
    return max((value for value in course.values if value is not None), default=0.0) if course is not None else 0.0


def counted_words(steps: Sequence[Step], name: str) -> str:
    """``3 link recoveries``, of one counter, without what was our own."""
    number = sum(step.by for step in steps if step.name == name and not step.ours)
    one, many = _WORDS[name]
    return f"{number:,} {one if number == 1 else many}"


def _known(course: CounterCourse) -> bool:
    return any(value is not None for value in course.values)


def _own(port: str, changes: Sequence[ChangeResult]) -> list[ChangeResult]:
    """The changes of ours on this cable, or on all of its host."""
    places = (port, Part.of(port).host)
    return [result for result in changes if result.change.component in places]


def _ber(name: str, course: CounterCourse, steps: Sequence[Step], line_rate_gbps: float) -> BerVerdict:
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


A_LITTLE = 0.9
"""What reached this share of its limit was slow because of a port that lost its link for some seconds; what is slower
has another cause (a choice)."""

Sick = Mapping[tuple[str, str], PortHealth]
"""Ports that are not well, by host and device."""

PortsOf = Mapping[str, Sequence[tuple[str, str]]]
"""By probe id host and device of each port that its bytes cross."""


def failed_meanwhile(
    suspects: Iterable[Suspect],
    results: Mapping[str, ProbeResult],
    verdicts: Mapping[str, ProbeVerdict],
    sick: Sick,
    ports: PortsOf,
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """
    Of suspects that are two hosts or what is between them: by their name the port that explains them, and their probes.

    While each of their probes ran, a counter of that port must have grown for which the port FAILs.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for one in suspects:
        if one.kind != "pair" or one.outcome is not Outcome.FAIL or not one.probes:
            continue
        guilty = []
        for name in one.probes:
            beside = [sick[at] for at in ports.get(name, ()) if at in sick]
            guilty.append(_guilty(results.get(name), verdicts[name], beside))
        alike = set.intersection(*guilty)
        if alike:
            found[one.component] = min(alike), one.probes
    return found


def crossed(suspects: Iterable[Suspect], probes: Sequence[Probe]) -> list[Probe]:
    """The probes of such suspects."""
    names = {name for one in suspects if one.kind == "pair" for name in one.probes}
    return [probe for probe in probes if probe.probe_id in names] if names else []


def _guilty(result: ProbeResult | None, verdict: ProbeVerdict, ports: Iterable[PortHealth]) -> set[str]:
    """Those that FAIL for what they counted while this was run, and measured nothing or was a little slow."""
    if result is None or verdict.outcome is not Outcome.FAIL:
        return set()
    if verdict.value_gbps is not None and verdict.value_gbps < A_LITTLE * (verdict.required_gbps or 0.0):
        return set()
    return {
        port.component
        for port in ports
        if any(
            port.bad.get(step.name) is Outcome.FAIL and not step.ours and step.touches(result.started_s, result.ended_s)
            for step in port.steps
        )
    }
