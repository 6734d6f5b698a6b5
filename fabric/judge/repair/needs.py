"""What a repaired part has to show, from how it failed: so many good tests, so long under load, as warm as then.

If a part was bad in every test through it, a few good tests show that it is well again. If it was bad in one test of
thirty, it may still be bad when thirty more are good. So the rate at which it was bad sets how many tests have to be
good. A fault that followed temperature, or came gradually (``Suspect.course``), shows only when the part is as warm
again, or after as long a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from statistics import median

from fabric.judge.locate.candidates import components_of, is_above
from fabric.judge.normal.interval import LEAST_SAMPLES, tests_that_tell
from fabric.judge.normal.keys import CROSS_LEAF, floor_of, key_of, link_class
from fabric.judge.normal.series import number_of
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult, Results
from fabric.model.recorded import Key
from fabric.model.repair import Need
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.topology import Topology
from fabric.model.verdict import DRIFT, HEAT, Suspect, Verdict, Verdicts

RATE_DOUBT = 0.1
"""The rate that is assumed is the lower end of the 80 % interval of how often a part was bad (Clopper and Pearson).
Whatever the true rate is, the chance that a part is bad so often and passes now without a repair is then below 2.5 %
(worked out for up to 300 tests). With the observed rate it is 11 %: a part that failed early seems worse than it is."""

AS_WARM_C = 2.0
"""Up to so many degrees less counts as warm (a choice: sensors tell whole degrees, and equal modules differ by two)."""

_PARTS = ("rnic", "link", "gpu")
"""Kinds of components that come and go, and are replaced."""


@dataclass(frozen=True, slots=True)
class Measured:
    """
    A whole run: its probes, their results and verdict, and the samples of counters; *complete*: it was not interrupted.

    In a post-repair validation, *again* names the phases that measured the evidence again, and *repaired* hosts count
    as peers of no other host. *added*: the ids of probes that were planned during the run.
    """

    probes: Sequence[Probe]
    results: Results
    verdict: Verdict
    topology: Topology
    samples: Samples
    complete: bool = True
    again: frozenset[str] = frozenset()
    repaired: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> Verdicts:
        """Return the verdicts by probe id."""
        return {one.probe_id: one for one in self.verdict.probes}

    def module(self, part: Part) -> CounterCourse | None:
        """Return the temperatures of the module of an RNIC; None if they were not read."""
        return self.samples.courses.get(CounterReading(part.host, part.device, "module_c"))


@dataclass(frozen=True, slots=True)
class PartTest:
    """
    A probe through a part; *gbps* None: it failed. *bad*: bad by its own number, whatever its series' median is.

    *lost*: the share that is missing to the best number of its key on this part.
    """

    probe: Probe
    result: ProbeResult
    gbps: float | None
    key: Key
    bad: bool
    lost: float = 0.0

    @property
    def at_s(self) -> float:
        """Return the middle of its time."""
        return (self.result.started_s + self.result.ended_s) / 2.0


def switches_of(name: str) -> tuple[str, ...]:
    """Return the switch that is named, or both switches of a cable."""
    return Part.of(name).link_ends or (Part.of(name).host,)


def passes_through(name: str, topology: Topology) -> Callable[[Probe], bool]:
    """Return a test of whether a probe passes, or may pass, through a part: its way between leaves is not known."""
    part = Part.of(name)
    leaves = {end for end in switches_of(name) if end in topology.switches and topology.switches[end].tier == "leaf"}
    of_switches = part.host not in topology.hosts and is_above(name, topology)
    if name in leaves or not of_switches:
        return lambda probe: any(one.name == name for one in components_of(probe, topology))
    return lambda probe: (
        link_class(probe, topology) == CROSS_LEAF
        and (not leaves or any(one.name in leaves for one in components_of(probe, topology)))
    )


def part_tests(name: str, run: Measured, *, accused: Collection[str] = (), lost: float = 0.0) -> list[PartTest]:
    """
    Return every probe through a part that was measured or failed.

    An *accused* probe is also bad if it lies a floor below the best number of its key. What the part *lost* before its
    repair sets what counts as a dip now, as a limit far below what is normal does not see a shallow one: half of that
    share, if it is a floor at least, below the best of its key on the same hosts.
    """
    passes, host = passes_through(name, run.topology), Part.of(name).host
    verdicts, own = run.verdicts, host in run.topology.hosts
    found: list[PartTest] = []
    best: defaultdict[tuple[Key, tuple[str, ...]], float] = defaultdict(float)  # of these hosts; (): of any
    for probe in run.probes:
        result, verdict = run.results.get(probe.probe_id), verdicts.get(probe.probe_id)
        if result is None or verdict is None or not verdict.ran or (own and host not in probe.hosts):
            continue
        gbps, size_bytes = number_of(result) or (None, None)
        if (gbps is not None or verdict.outcome in (Outcome.FAIL, Outcome.ERROR)) and passes(probe):
            key = key_of(probe, size_bytes, run.topology)
            for hosts in ((), probe.hosts):
                best[key, hosts] = max(best[key, hosts], gbps or 0.0)
            failed = gbps is None or (verdict.outcome is Outcome.FAIL and bool(verdict.against))
            bad = failed or (verdict.limit_gbps is not None and (gbps or 0.0) < verdict.limit_gbps)
            found.append(PartTest(probe, result, gbps, key, bad))

    def with_loss(one: PartTest) -> PartTest:
        missing, beside = (1 - (one.gbps or 0.0) / (best[one.key, hosts] or inf) for hosts in ((), one.probe.hosts))
        floor = floor_of(one.key.kind)
        bad = one.bad or (missing > floor and one.probe.probe_id in accused) or beside > lost / 2 >= floor
        return replace(one, bad=bad, lost=missing)

    return [with_loss(one) for one in found]


def needs_of(
    run: Measured, evidence: Sequence[Probe], suspects: Sequence[Suspect], names: Sequence[str]
) -> tuple[Need, ...]:
    """
    Return what the parts of *suspects* have to show; *names* are the hosts or links that were repaired.

    A part with too few tests to know how often it is bad explains nothing. Nor does a path that was sometimes good: low
    in its only test, or in two of three, the cause may as well be an RNIC that dips. What a probe itself names (a
    missing GPU) explains it. For *evidence* that no part explains, or only one that was good at times, the need falls
    on the parts on its way that were bad most often, too: an RNIC whose few dips all went over its port, say.
    """
    accused = frozenset((*(one.probe_id for one in evidence), *(name for one in suspects for name in one.probes)))
    blamed = {name: one.course for one in suspects for name in (one.component, *one.ambiguous_with)}
    tests_of = cache(partial(part_tests, run=run, accused=accused))
    tests = {name: tests_of(name) for name in blamed if len(tests_of(name)) >= LEAST_SAMPLES}
    told = ((one.probe_id, one.named) for one in run.verdict.probes)
    explained = {name: inf for name, part in told if part is not None and part.component in blamed}
    for name, own in tests.items():
        always, count = all(one.bad for one in own), sum(one.bad for one in own)
        for one in own if always or not Part.of(name).end else ():
            before = explained.get(one.probe.probe_id, 0)
            explained[one.probe.probe_id] = inf if always else max(before, count)
    for probe in evidence if set(names) <= run.topology.hosts.keys() else ():
        most = explained.get(probe.probe_id, 0)
        parts = list(components_of(probe, run.topology)) if most < inf else []
        on_way = [one.name for one in parts if one.kind in _PARTS] or [one.name for one in parts[:1]]
        bad = {name: sum(one.bad for one in tests_of(name)) for name in on_way}
        worst = max(bad.values(), default=0)
        tests |= {name: tests_of(name) for name in on_way if most <= bad[name] == worst}
    began_s = min((one.started_s for one in run.results.values() if one.attempt), default=0.0)
    found = []
    for name, own in tests.items():
        part, count = Part.of(name), sum(one.bad for one in own)
        if count and not set(names).isdisjoint((name, part.host)):
            when = _when(own, blamed.get(name, ""), run.module(part), began_s)
            losses = [one.lost for one in own if one.bad and one.gbps is not None]
            lost = median(losses) if losses else 0.0
            found.append(Need(name, count, len(own), wanted_tests(count, len(own)), *when, lost=lost))
    return tuple(found)


def wanted_tests(bad: int, of: int) -> int:
    """Return how many good tests show that a part that was bad in *bad* of *of* tests is well again."""
    from scipy.special import betaincinv

    rate = float(betaincinv(bad, of - bad + 1, RATE_DOUBT))
    return max(LEAST_SAMPLES, tests_that_tell(rate))


def is_as_warm(course: CounterCourse | None, at_s: float, warm_c: float) -> bool:
    """Return whether a module was as warm as *warm_c* at a time; False if it was not read."""
    value = None if course is None else course.value_at(at_s)
    return value is not None and value >= warm_c - AS_WARM_C


def _when(
    tests: Sequence[PartTest], course: str, module: CounterCourse | None, began_s: float
) -> tuple[float, float | None]:
    """
    Return how long under load (seconds) and how warm (degrees Celsius) a part must be for its fault to show.

    This is 0 and None unless the fault came gradually or with warmth.
    """
    import numpy as np

    from fabric.judge.course.located import lost_along

    key = Counter(one.key for one in tests).most_common(1)[0][0]
    own = sorted((one for one in tests if one.key == key and one.gbps), key=lambda one: one.at_s)
    known = [value for one in own if module is not None and (value := module.value_at(one.at_s)) is not None]
    if course == HEAT and known:
        warm_c = float(np.quantile(known, 0.875))  # the middle of the warmest quarter
        return next(one.at_s for one in own if is_as_warm(module, one.at_s, warm_c)) - began_s, warm_c
    if course == DRIFT and own:
        at_s, values = np.array([one.at_s for one in own]), np.array([one.gbps for one in own])
        lost, floor = lost_along(at_s, values / np.quantile(values, 0.9)), floor_of(own[0].probe.kind)
        return float(np.ptp(at_s)) * floor / lost if lost >= floor else 0.0, None
    return 0.0, None
