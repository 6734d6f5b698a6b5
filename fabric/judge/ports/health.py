"""Judging a port by its counters during a run: when which counter grew, what our own changes explain, how bad it is.

- link_downed: FAIL on InfiniBand, MARGINAL on Ethernet (gcm's check-ib: ib* flaps are critical, eth* flaps a warning).
- link_error_recovery: MARGINAL from 1 on (Azure: investigate).
- symbol errors: their total over all the time that they were watched (``judge_ber``). Ethernet has no such counter:
  there frames with a bad CRC are judged alike (a choice: each stands for at least one error behind the FEC).
- port_rcv_errors above 100, port_xmit_discards above 1,000: MARGINAL (Azure: investigate).
- a module above 70 C: MARGINAL (NVIDIA's UFM plugin isolates the port from there on: TMAX).

Retransmissions (hw_counters), pauses and waiting are shown and not judged, because congestion causes them on a good
fabric. They are judged if the scenario says how much is too much (``ZeroGrowth``): by the worst hour, or the whole
time that was watched if that is shorter, and not while a change of ours was in force anywhere. If the scenario allows
no times down, one is a FAIL on either link layer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil, exp, log

from fabric.model import gathered
from fabric.model.change import ChangeResult, Changes
from fabric.model.outcome import Outcome
from fabric.model.sampling import (
    CRITERIA,
    HOT_C,
    JUDGED,
    LINK_DOWNED,
    PFC,
    PFC_COUNTERS,
    PFC_TIMES,
    RETRANSMITS,
    SYMBOL_ERRORS,
    CounterCourse,
    Samples,
    ZeroGrowth,
    counters_of,
    growth,
)
from fabric.model.text import duration_text
from fabric.model.topology import Topology
from fabric.probes.sources import SLOWLY

SETTLE_S = 30.0
"""How long after a change the link may still train and be swept: three default sweeps of a subnet manager."""

BER = 1e-15
"""
The symbol error ratio that a link may have: "normal" in NVIDIA's cluster bring-up procedure (error: 1e-14), and what
the UFM plugin for packet drop rates requires of a link that returns to service.
"""

FALSE_FAILS = 0.01
"""The chance that any port FAILs in a run whose ports all have exactly the ratio ``BER`` (a choice)."""

FALSE_PASSES = exp(-3.0)
"""
The chance that a port with exactly the ratio ``BER`` PASSes: the rule of three, none seen where 3 are expected (5 %).

At 400 Gb/s that takes NVIDIA's 125 minutes.
"""

MANY = 3
"""From so many on, parts that are bad together have something in common: two may be chance (a choice)."""

ERRORS = ("symbol_error", "rx_crc_errors")

HOUR_S = 3600.0
"""The span over which rates are judged, in the worst hour: the unit of ``retransmits_per_hour``."""


_COUNTED = {
    "link_downed": ("time down", "times down", 0),
    "link_error_recovery": ("link recovery", "link recoveries", 0),
    "symbol_error": ("symbol error", "symbol errors", 0),
    "rx_crc_errors": ("frame with a bad CRC", "frames with a bad CRC", 0),
    "port_rcv_errors": ("receive error", "receive errors", 100),
    "port_xmit_discards": ("packet discarded", "packets discarded", 1000),
}
"""Each counter's singular and plural in words, and how much of it a good port may count."""

Windows = Sequence[tuple[float, float]]
"""Times (begin, end) in seconds, such as those in which a change of ours was in force and ``SETTLE_S`` after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Growth of a counter at some time from *from_s* to *at_s*, seconds; *ours*: a change of ours explains it."""

    name: str
    from_s: float
    at_s: float
    by: int
    ours: bool = False

    def touches(self, began_s: float, ended_s: float) -> bool:
        """Return whether the growth may have been within a window."""
        return self.at_s > began_s and self.from_s < ended_s


@dataclass(frozen=True, slots=True)
class BerVerdict:
    """
    The verdict on the bit errors of a port: PASS, FAIL or INCONCLUSIVE, and why.

    *left_s*: so many seconds more, a whole number, without another error would show that the port is well (0 if it is
    decided).
    *count* errors were seen in *watched_s* seconds.
    """

    outcome: Outcome
    reason: str
    left_s: float = 0.0
    count: int = 0
    watched_s: float = 0.0


Found = tuple[str, Outcome, str]
"""The name of a counter or reading, how bad it is (PASS: a remark beside what is bad), and a text; name or text may be
empty."""


@dataclass(frozen=True, slots=True)
class PortHealth:
    """
    One port (or cable, or switch) judged by its counters: what was *found* wrong, and all steps of its counters.

    *ber* is the verdict on its bit errors, None if no counter of them could be read. *resets* counts how often a
    counter was cleared meanwhile. *unread* are the criteria of the scenario's zero growth that were not shown. *full*
    are the counters that stood at their highest value at the end: what they would have counted on was not seen. *cable*
    is the name of a cable between switches, which is no port of a host, or of a switch that is bad as a whole. For a
    leaf: the hosts *under* it, and the ports that it *explains*.
    """

    host: str
    device: str
    found: tuple[Found, ...] = ()
    steps: tuple[Step, ...] = ()
    ber: BerVerdict | None = None
    resets: int = 0
    unread: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    cable: str = ""
    under: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return what is wrong, each text once."""
        return tuple(dict.fromkeys(text for _, _, text in self.found if text))

    @property
    def bad(self) -> dict[str, Outcome]:
        """Return the counters and readings that are bad, each with its worst outcome."""
        ranked = sorted(self.found, key=lambda one: one[1].rank)
        return {name: outcome for name, outcome, _ in ranked if outcome is not Outcome.PASS}

    @property
    def outcome(self) -> Outcome:
        """Return the worst outcome of all findings; INCONCLUSIVE at least if a criterion was not shown."""
        unread = (Outcome.INCONCLUSIVE for _ in self.unread)
        return Outcome.worst((Outcome.PASS, *(outcome for _, outcome, _ in self.found), *unread))

    @property
    def component(self) -> str:
        """Return its name in a verdict."""
        return self.cable or f"{self.host}/{self.device}:port"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the host of the port; of a leaf the hosts under it, of a cable between switches none."""
        return self.under if self.cable else (self.host,)

    @property
    def bad_steps(self) -> list[Step]:
        """Return the steps of the bad counters, without those that our own changes explain."""
        bad = self.bad
        return [step for step in self.steps if step.name in bad and not step.ours]


def joined(ends: Sequence[PortHealth]) -> PortHealth:
    """Join what was read at several ends of a cable into one part, which keeps the name of the last of them."""
    bers = [one.ber for one in ends if one.ber is not None]
    return replace(
        ends[-1],
        found=tuple(text for one in ends for text in one.found),
        steps=tuple(step for one in ends for step in one.steps),
        ber=max(bers, key=lambda one: (one.outcome.rank, one.left_s), default=None),
        resets=sum(one.resets for one in ends),
        unread=tuple(sorted({name for one in ends for name in one.unread}, key=CRITERIA.index)),
        full=tuple(dict.fromkeys(name for one in ends for name in one.full)),
    )


def ports_of_run(
    samples: Samples,
    topology: Topology,
    hosts: Sequence[str],
    changes: Changes,
    zero_growth: ZeroGrowth | None = None,
    *,
    shared: Windows = (),
) -> list[PortHealth]:
    """
    Judge every port of *hosts* that could be read, or had to be read.

    *shared*: times in which flows shared links by plan, so that pauses are expected.
    """
    courses = by_port(samples)
    ports = [(topology.hosts[host], rnic) for host in hosts for rnic in topology.hosts[host].platform.rnics]
    found = (
        port_health(
            host.name,
            rnic.device,
            courses.get((host.name, rnic.device), {}),
            changes,
            every_s=samples.every_s,
            line_rate_gbps=rnic.line_rate_gbps,
            ethernet=host.platform.link_layer == "ethernet",
            zero_growth=zero_growth,
            ports=len(ports),
            shared=shared,
        )
        for host, rnic in ports
    )
    return [port for port in found if port is not None]


def by_port(samples: Samples) -> dict[tuple[str, str], dict[str, CounterCourse]]:
    """Return the courses by counter name for each port: (host, RNIC) or (switch, port number)."""
    found = gathered(((one.host, one.part), (one.name, course)) for one, course in samples.courses.items())
    return {part: dict(named) for part, named in found.items()}


def port_health(
    host: str,
    device: str,
    courses: Mapping[str, CounterCourse],
    changes: Changes,
    *,
    every_s: float,
    line_rate_gbps: float,
    ethernet: bool,
    zero_growth: ZeroGrowth | None = None,
    ports: int = 1,
    also: Collection[str] = (),
    shared: Windows = (),
    with_host_s: Collection[float] = (),
) -> PortHealth | None:
    """
    Judge a port by the courses of its counters (by name); return None if none could be read and none had to be.

    *ports* are judged in this run: among many, one counts more than the others by chance alone. Changes of ours on the
    port, on its host or on a name in *also* explain what it counted meanwhile. *with_host_s*: when it went down because
    its host did.
    """
    read = {name: courses[name] for name in JUDGED if name in courses and known_values(courses[name])}
    if not read and zero_growth is None:
        return None
    own = windows_of(result for result in changes if result.change.component in (f"{host}/{device}", host, *also))
    port = _Port(courses, every_s, ethernet, zero_growth or ZeroGrowth(), (*windows_of(changes), *shared))
    grown = {name: steps_of(name, course, own, every_s) for name, course in read.items()}
    every = (step for of_one, _ in grown.values() for step in of_one)
    steps = tuple(step for step in every if step.name != LINK_DOWNED or step.at_s not in with_host_s)
    found = [*port.too_many(steps, read), *port.too_hot(), *port.congested()]
    ber = None
    if name := next((one for one in ERRORS if one in read), None):
        of_time_s = watched_s(name, read[name], own, every_s)
        ber = judge_ber(_sum(steps, name), of_time_s, line_rate_gbps, ports=ports, name=name)
        found += [(name, Outcome.FAIL, ber.reason)] if ber.outcome is Outcome.FAIL else []
    resets = sum(number for _, number in grown.values())
    full = tuple(name for name, one in read.items() if stands_full(name, known_values(one)[-1], ethernet=ethernet))
    return PortHealth(host, device, tuple(found), steps, ber, resets, tuple(port.not_shown(ber)), full)


FULL = "stands at its highest value: nothing more is seen until it is cleared (perfquery -R LID PORT)"


def stands_full(name: str, value: float, *, ethernet: bool) -> bool:
    """Return whether a counter stands at its highest value; an Ethernet port's times down are no narrow counter."""
    return not (ethernet and name == LINK_DOWNED) and growth(name, int(value), int(value)).full


def known_values(course: CounterCourse | None) -> list[float]:
    """Return the values of a counter that could be read, in order of time."""
    return [] if course is None else [value for value in course.values if value is not None]


def _sum(steps: Iterable[Step], name: str | None = None) -> int:
    """Return how much a counter grew (*name* None: all counters together), without what our own changes explain."""
    return sum(step.by for step in steps if not step.ours and name in (None, step.name))


@dataclass(frozen=True, slots=True)
class _Port:
    """The readings of one port, the scenario's criteria (*wanted*), and when congestion is explained (*busy*)."""

    courses: Mapping[str, CounterCourse]
    every_s: float
    ethernet: bool
    wanted: ZeroGrowth
    busy: Windows

    def too_many(self, steps: Sequence[Step], read: Mapping[str, CounterCourse]) -> Iterator[Found]:
        """Yield the counters that exceed what a good port has, or 0 if the scenario says so; and since when."""
        never = {name for criterion in self.wanted.criteria for name in self._counters(criterion)}
        for name, course in read.items():
            grown = [step for step in steps if step.name == name and not step.ours]
            if name not in ERRORS and _sum(grown) > (0 if name in never else _COUNTED[name][2]):
                first, last = (_after(step, course) for step in (grown[0], grown[-1]))
                when = f" after {first}" if len(grown) == 1 else f", first after {first}, last after {last}"
                fails = name in never or (name == "link_downed" and not self.ethernet)
                yield name, Outcome.FAIL if fails else Outcome.MARGINAL, counted_words(_sum(grown), name) + when

    def too_hot(self) -> Iterator[Found]:
        """Yield a finding if the module was hotter than ``HOT_C``."""
        heat_c = max(known_values(self.courses.get("module_c")), default=0.0)
        if heat_c > HOT_C:
            yield "module_c", Outcome.MARGINAL, f"its module was at {heat_c:.0f} C, NVIDIA isolates above {HOT_C:.0f}"

    def congested(self) -> Iterator[Found]:
        """Yield what grew in some hour by more than is allowed: each kind of pause, all retransmissions together."""
        for name in self._counters(PFC) if PFC in self.wanted.criteria else ():
            steps, span_s, until = self._in_worst_hour([name])
            paused_s, most = _sum(steps) * 1e-6, self.wanted.pfc_paused or 0.0
            if paused_s > most * span_s:
                way = "it was told to wait" if name == PFC_TIMES[0] else "it told the other end to wait"
                pauses = f"{way} {paused_s / span_s:.1%} of the {until}, allowed {most:.1%}"
                yield name, Outcome.FAIL, f"zero growth: {name}: {pauses}"
        if RETRANSMITS in self.wanted.criteria:
            names, an_hour = self._counters(RETRANSMITS), self.wanted.retransmits_per_hour or 0.0
            steps, span_s, until = self._in_worst_hour(names)
            grew = {name: number for name in names if (number := _sum(steps, name))}
            if sum(grew.values()) * HOUR_S > an_hour * span_s:
                increases = ", ".join(f"{name} by {number:,}" for name, number in grew.items())
                text = f"zero growth: retransmits: {increases} in the {until}, allowed {an_hour:,g} an hour together"
                yield from ((name, Outcome.FAIL, text) for name in grew)

    def not_shown(self, ber: BerVerdict | None) -> Iterator[str]:
        """Yield the criteria that were not read twice, and symbol errors if there were some, but too few to tell."""
        for criterion in self.wanted.criteria:
            some = criterion == SYMBOL_ERRORS and ber is not None and ber.count and ber.outcome is Outcome.INCONCLUSIVE
            seen_s = ((name, self.courses.get(name, CounterCourse())) for name in self._counters(criterion))
            if some or any(watched_s(name, course, (), 0.0) < self._spacing_s(name) for name, course in seen_s):
                yield criterion

    def _counters(self, criterion: str) -> tuple[str, ...]:
        return counters_of(criterion, ethernet=self.ethernet)

    def _spacing_s(self, name: str) -> float:
        return SLOWLY * self.every_s if name in PFC_COUNTERS else self.every_s

    def _in_worst_hour(self, names: Iterable[str]) -> tuple[Sequence[Step], float, str]:
        """Return the steps of these counters in their worst hour, how long that was, and a text with its end."""
        read = {name: self.courses[name] for name in names if name in self.courses}
        grown = [steps_of(name, course, self.busy, self._spacing_s(name))[0] for name, course in read.items()]
        of_time_s = max((course.until_s - course.at_s[0] for course in read.values() if course.at_s), default=0.0)
        not_ours = sorted((step for steps in grown for step in steps if not step.ours), key=lambda step: step.at_s)
        steps, span_s = worst_hour(not_ours, of_time_s)
        if not steps:
            return (), span_s, ""
        hour = "hour" if span_s == HOUR_S else duration_text(span_s)
        return steps, span_s, f"{hour} until {_after(steps[-1], read[steps[-1].name])}"


def _after(step: Step, course: CounterCourse) -> str:
    """Return how long the counter had been watched at a step, in words."""
    return duration_text(max(0.0, step.at_s - course.at_s[0]))


def counted_words(number: int, name: str) -> str:
    """Return a text such as ``3 link recoveries``."""
    one, many, _ = _COUNTED[name]
    return f"{number:,} {one if number == 1 else many}"


def windows_of(changes: Iterable[ChangeResult]) -> Windows:
    """Return the times in which these changes were in force, each ``SETTLE_S`` longer."""
    return [(window.began_s, window.until_s + SETTLE_S) for result in changes for window in result.windows]


def steps_of(name: str, course: CounterCourse, own: Windows, every_s: float) -> tuple[list[Step], int]:
    """Return the steps of a counter, and how often it was cleared; growth over a gap without readings is unknown."""
    found: list[Step] = []
    resets, before = 0, None
    for at_s, value in zip(course.at_s, course.values, strict=True):
        if value is not None and before is not None:
            grew = growth(name, int(before), int(value))
            resets += grew.reset
            if grew.by:
                step = Step(name, at_s - every_s, at_s, grew.by)
                found.append(replace(step, ours=any(step.touches(*window) for window in own)))
        before = value
    return found, resets


def watched_s(name: str, course: CounterCourse, own: Windows, every_s: float) -> float:
    """
    Return for how long a counter tells of its link: while it was read, and no change of ours was in force.

    The time of one sample after a change is left out, like the growth in it. A counter that stands at its highest value
    counts no further.
    """
    sum_s = 0.0
    for (from_s, until_s), value in zip(pairwise((*course.at_s, course.until_s)), course.values, strict=True):
        if value is None or growth(name, int(value), int(value)).full:
            continue
        at_s = from_s
        for began_s, ended_s in sorted(own):
            sum_s += max(0.0, min(began_s, until_s) - at_s)
            at_s = max(at_s, ended_s + every_s)
        sum_s += max(0.0, until_s - at_s)
    return sum_s


def clean_s(line_rate_gbps: float) -> float:
    """Return how long a link must be watched without an error to PASS: 7,500 s at 400 Gb/s."""
    return -log(FALSE_PASSES) / (BER * line_rate_gbps * 1e9)


def judge_ber(
    count: int, of_time_s: float, line_rate_gbps: float, *, ports: int = 1, name: str = ERRORS[0]
) -> BerVerdict:
    """
    Judge *count* errors in *of_time_s* seconds by the Poisson distribution of errors at the ratio ``BER``.

    FAIL: the chance of as many errors or more is below ``FALSE_FAILS``, divided among all *ports* of the run
    (Bonferroni). PASS: the chance of as few or fewer is ``FALSE_PASSES`` or less. In between: INCONCLUSIVE.
    """
    from scipy.special import pdtrc, pdtri  # the upper tail of the distribution, and the mean for a lower tail

    allowed_a_s = BER * line_rate_gbps * 1e9
    allowed = allowed_a_s * of_time_s
    reason = f"{counted_words(count, name)} in {duration_text(of_time_s)}, {allowed:.3g} allowed (BER {BER:g})"
    left_s = float(ceil(round(float(pdtri(count, FALSE_PASSES)) / allowed_a_s - of_time_s, 3)))
    outcome = Outcome.INCONCLUSIVE if left_s > 0.0 else Outcome.PASS
    if count and pdtrc(count - 1, allowed) < FALSE_FAILS / ports:
        outcome = Outcome.FAIL
    return BerVerdict(outcome, reason, left_s if outcome is Outcome.INCONCLUSIVE else 0.0, count, of_time_s)


def worst_hour(steps: Sequence[Step], of_time_s: float) -> tuple[Sequence[Step], float]:
    """Return the steps of the hour with most growth, and its length: less if less was watched; *steps* are in order."""
    span_s = min(HOUR_S, of_time_s)
    if not steps or span_s <= 0.0:
        return (), span_s
    ends = [step.at_s for step in steps]
    sums = [0, *accumulate(step.by for step in steps)]
    firsts = [bisect_right(ends, end_s - span_s) for end_s in ends]
    last = max(range(len(steps)), key=lambda place: sums[place + 1] - sums[firsts[place]])
    return steps[firsts[last] : last + 1], span_s
