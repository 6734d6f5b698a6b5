"""A rack that is measured until its judge asks for nothing more: the loop of a run, without its engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fabric.judge.verdict.further_tests import MoreSamples
from fabric.judge.verdict.probes import Judge
from fabric.model.probe import Probe, ProbeResult
from fabric.model.recorded import Recorded
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit, ProbeVerdict
from fabric.plan.plan import PhasePlan
from fabric.plan.schedule import Schedule, Slot
from fabric.probes.kinds import expand_phase
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from tests.judge.noisy_rack import LOW_LIMITS, one_number

Draw = Callable[[Probe], float]
"""What one sample of a probe measures, Gb/s."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """All probes, their verdicts by id, how many samples each planned series has, and how often more were asked for."""

    probes: list[Probe]
    verdicts: dict[str, ProbeVerdict]
    samples: dict[str, int]
    rounds: int

    @property
    def mean(self) -> float:
        """Samples a series."""
        return sum(self.samples.values()) / len(self.samples)


def one_number_a_host(topology: Topology, *, repeat: int = 3) -> list[Probe]:
    """A single pair of RNICs of each host, so that no other probe can confirm what it says."""
    probes = expand_phase(Phase("x", (RnicToRnicSpec(repeat=repeat),)), topology, tuple(topology.hosts))
    return [probe for probe in probes if probe.params["series"] == "mlx5_0.mlx5_1"]


def noisy(*, cv: float, seed: int, factors: dict[str, float] | None = None, spread: float = 0.004) -> Draw:
    """
    400 Gb/s with normal noise, hosts that differ a little, and one sample in a hundred that dips by 5 to 30 %.

    The model with which the rules were compared (safety goals, B.1). *factors*: what share slow hosts carry.
    """
    draw = random.Random(seed)
    hosts: dict[str, float] = {}

    def of(probe: Probe) -> float:
        host = probe.hosts[0]
        if host not in hosts:
            hosts[host] = draw.gauss(1.0, spread) * (factors or {}).get(host, 1.0)
        dip = 1 - draw.uniform(0.05, 0.3) if draw.random() < 0.01 else 1.0
        return 400.0 * hosts[host] * max(0.01, draw.gauss(1.0, cv)) * dip

    return of


def judge_of(
    topology: Topology, *, limits: tuple[Limit, ...] = LOW_LIMITS, recorded: tuple[Recorded, ...] = ()
) -> Judge:
    """One that takes as many samples as it needs."""
    baselines = {"h100-ndr": Baseline("h100-ndr", "f", limits, recorded)}
    return Judge(baselines, topology=topology, marginal=0.005, sequential=True)


def phase_of(probes: Sequence[Probe], phase: Phase | None = None) -> PhasePlan:
    """A phase that plans these probes."""
    slots = tuple(Slot(probe, 0.0) for probe in probes)
    return PhasePlan(phase or Phase("x", ()), Schedule(slots, 60.0, 60.0, "", 1), ())


def result_of(probe: Probe, value_gbps: float) -> ProbeResult:
    """A probe that measured one number."""
    size = probe.params.get("size_bytes")
    return one_number(probe.probe_id, value_gbps, size if isinstance(size, int) else None)


def sampled(probes: Sequence[Probe], draw: Draw, judge: Judge, *, most_rounds: int = 1000) -> Sampled:
    """Measure, ask what more is wanted, measure that, until nothing is."""
    follow_up, plan = MoreSamples(judge), phase_of(probes)
    results = [result_of(probe, draw(probe)) for probe in probes]
    added: list[Probe] = []
    rounds = 0
    while rounds < most_rounds and (more := follow_up.more(plan, results, added)):
        added += more
        results += [result_of(probe, draw(probe)) for probe in more]
        rounds += 1
    everything = [*probes, *added]
    verdicts = judge.judge(list(zip(everything, results, strict=True)))
    samples: dict[str, int] = {}
    for probe in everything:
        name = f"{probe.hosts}{probe.kind}{probe.params['series']}"
        samples[name] = samples.get(name, 0) + 1
    return Sampled(everything, {verdict.probe_id: verdict for verdict in verdicts}, samples, rounds)
