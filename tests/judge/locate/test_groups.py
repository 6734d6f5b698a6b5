"""All-reduces over groups of hosts: judged like any other probe, summed up where there is no limit."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import JudgeSettings, Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit, ProbeVerdict, Verdict
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.kinds import expand_phase
from tests.builders import suspects


def planned(rack: Topology, *specs: ProbeSpec) -> list[Probe]:
    """The probes of one phase over the whole rack."""
    return expand_phase(Phase("p", specs), rack, tuple(rack.hosts))


def concluded(rack: Topology, probes: list[Probe], values: list[float], *limits: Limit) -> Verdict:
    """The verdict when each probe measured one value."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, JudgeSettings(marginal=0.01), rack)
    results = {
        probe.probe_id: ProbeResult(
            probe.probe_id, 1, (Measurement(probe.probe_id, "busbw_in_place", value, "Gb/s", 8 << 30),), None, "", 0, 1
        )
        for probe, value in zip(probes, values, strict=True)
    }
    return conclude(probes, results, topology=rack, judge=judge)


def test_no_limit_is_summed_up(rack: Topology) -> None:
    """One line a name says how many groups there were and how they spread; repetitions count once, by their median."""
    probes = planned(rack, ConcurrentRingsSpec(repeat=3))
    values = [100.0 * (1 + number // 3) + number % 3 for number in range(len(probes))]  # medians 101, 201, ...
    verdict = concluded(rack, probes, values)
    groups = len(probes) // 3
    assert verdict.outcome is Outcome.INCONCLUSIVE
    (line,) = [reason for reason in verdict.lines if "measured" in reason]
    assert f"p/concurrent_rings: {groups} measured, mean {50.0 * (groups + 1) + 1:.1f}, least 101.0" in line
    assert "no baseline for concurrent_rings, ranks 16, algorithm RING, size 8G" in line
    assert not [reason for reason in verdict.lines if reason.startswith("  1")]


@pytest.mark.parametrize(("value", "outcome"), [(2000.0, Outcome.FAIL), (3000.0, Outcome.PASS)])
def test_a_limit_judges(rack: Topology, value: float, outcome: Outcome) -> None:
    """With a limit for its kind and ranks a group passes or fails."""
    probes = planned(rack, GroupAllReduceSpec(hosts=4, repeat=3))
    limit = Limit("group_all_reduce", 2500.0, "own", ranks=32)
    assert concluded(rack, probes, [value] * 3, limit).outcome is outcome


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        (ConcurrentRingsSpec(pairing="neighbours", repeat=3), "pair", "gpu001+gpu002"),
        (ConcurrentRingsSpec(groups_of=4, repeat=3), "group", "gpu001+3-more"),
        (GroupAllReduceSpec(repeat=3), "group", "gpu001+7-more"),
    ],
)
def test_a_bad_group_is_one_suspect(spec: ProbeSpec, kind: str, name: str) -> None:
    """Which of its hosts it is, or whether it is the network between them, cannot be told."""
    rack = rack_topology(8)
    probes = planned(rack, spec)
    verdicts = {probe.probe_id: ProbeVerdict(probe.probe_id, Outcome.PASS, "", 3000.0) for probe in probes}
    for probe in probes:
        if "gpu001" in probe.hosts:
            verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, Outcome.FAIL, "", 1000.0, 2500.0)
    (found,) = suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)
    assert (found.kind, found.component) == (kind, name)
    assert set(found.ambiguous_with) == ({"gpu001", "gpu002"} if kind == "pair" else set())
