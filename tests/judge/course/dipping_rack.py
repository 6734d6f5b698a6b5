"""A rack whose RNICs are measured in rounds of pairs and again where they dip; no clock, no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.course.follow_up import DippedAgain
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, FailureKind, Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.model.topology import Topology
from fabric.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.pairwise import PairwiseSpec

RACK = rack_topology(16, parts=2)
NORMAL_GBPS = 390.0
ROUND_S = 14_400.0
TEST_S = 12.0
Share = Callable[[Probe], float | None]
"""What a probe reaches of what is normal; None: the transport gives up."""


def ends(probe: Probe) -> tuple[str, str]:
    """The RNICs of a pair test."""
    return f"{probe.hosts[0]}/{probe.params['rnic']}", f"{probe.hosts[1]}/{probe.params['peer_rnic']}"


def well(probe: Probe) -> float:
    """Nothing dips."""
    return 1.0


def measured(probe: Probe, share: float | None, at_s: float = 0.0) -> ProbeResult:
    """Its result."""
    if share is None:
        gone = FailureKind.RETRIES_EXCEEDED
        return ProbeResult(probe.probe_id, 1, (), Outcome.FAIL, "retries exceeded", at_s, at_s + 10.0, failure=gone)
    return one_number(probe.probe_id, NORMAL_GBPS * share, at_s=at_s, s=10.0)


def refused(probe: Probe) -> ProbeResult:
    """It was not begun: a host of it is out."""
    return ProbeResult(probe.probe_id, 0, (), Outcome.SKIPPED, "out", 0.0, 0.0)


def soak(number: int, topology: Topology = RACK, *, round_s: float = ROUND_S, rounds: int = 4) -> PhasePlan:
    """One of the rounds of a phase that fills a time, with so many pair tests of each RNIC."""
    spec = PairwiseSpec(rounds=rounds, duration_s=10, first=(number - 1) * rounds)
    phase = Phase(f"soak-r{number}", (spec,), label="soak", round=number, fills=FilledTime("soak", 1e6))
    planned = schedule(expand_phase(phase, topology, tuple(topology.hosts)))
    return PhasePlan(phase, replace(planned, makespan_s=round_s), ())


class Rounds:
    """Runs rounds one after the other, with what the follow-up wants after each."""

    def __init__(self, share: Share, topology: Topology = RACK) -> None:
        self.share, self.topology = share, topology
        self.follow_up = DippedAgain(topology)
        self.plans: list[PhasePlan] = []
        self.probes: list[Probe] = []
        self.results: dict[str, ProbeResult] = {}
        self._tests = Counter[str]()

    def run(self, plan: PhasePlan, follow_up: DippedAgain | None = None, out: str = "") -> list[Probe]:
        """What was measured again after this round; nothing is run with the host that is *out*."""
        asked = follow_up or self.follow_up
        planned = [slot.probe for slot in plan.schedule.slots]
        results, added = self._measure(planned, out), list[Probe]()
        limits = asked.limits(plan)
        for _ in range(limits.rounds if limits else 0):
            more = list(asked.more(plan, results, added))
            if not more:
                break
            added += more
            results += self._measure(more, out)
        asked.ended(plan, results, added)
        self.plans.append(plan)
        return added

    def _measure(self, probes: Sequence[Probe], out: str) -> list[ProbeResult]:
        """Further tests of a part follow each other."""
        self.probes += probes
        made = []
        for one in probes:
            part = str(one.params.get(AGAIN, ""))
            self._tests[part] += part != ""
            at_s = 1000.0 * len(self.plans) + TEST_S * self._tests[part]
            made.append(refused(one) if out in one.hosts else measured(one, self.share(one), at_s))
        self.results.update((one.probe_id, one) for one in made)
        return made


def parts_of(added: Sequence[Probe]) -> set[str]:
    """Because of whom these were run."""
    return {str(probe.params[AGAIN]) for probe in added}
