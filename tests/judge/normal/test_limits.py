"""A limit that the line cannot carry fails nobody; one that it can fails also who trained at half the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import dgx_platform, one_number, rack_topology
from fabric.judge.verdict.probes import Judge, confirmed
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import JudgeSettings, Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit, ProbeVerdict
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec

FOR_400 = (
    Limit("loopback", 360.0, "made for 400 Gb/s"),
    Limit("rnic_to_rnic", 384.0, "made for 400 Gb/s"),
    Limit("pairwise", 384.0, "made for 400 Gb/s"),
    Limit("link_burn", 200.0, "half of 400 Gb/s"),
    Limit("tor_all_reduce", 368.0, "made for 400 Gb/s", algorithm="RING", per_rnic=True),
    Limit("all_to_all", 2432.0, "NVLink"),
)
SPECS = (LoopbackSpec(), RnicToRnicSpec(), PairwiseSpec(), TorAllReduceSpec())


def with_lines(line_rate_gbps: float, *, hosts: int = 8) -> Topology:
    """A rack of which the inventory says that its RNICs have this line rate."""
    platform = dgx_platform(line_rate_gbps=line_rate_gbps)
    rack = rack_topology(hosts)
    return replace(rack, hosts={name: replace(host, platform=platform) for name, host in rack.hosts.items()})


def judged(topology: Topology, share: float, *specs: ProbeSpec, slow: str = "") -> list[tuple[Probe, ProbeVerdict]]:
    """All probes at that share of 400 Gb/s a line; *slow*: an RNIC that has but 0.7 of it."""
    probes = list(expand_phase(Phase("p", specs), topology, tuple(topology.hosts)))
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", FOR_400)}, JudgeSettings(marginal=0.005), topology)
    return list(zip(probes, judge.judge((probe, _result(probe, share, slow)) for probe in probes), strict=True))


def _result(probe: Probe, share: float, slow: str) -> ProbeResult:
    ends = (f"{probe.hosts[0]}/{probe.params.get('rnic')}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic')}")
    value = 400.0 * (8 if probe.kind == "tor_all_reduce" else 1) * share * (0.7 if slow in ends else 1.0)
    size = probe.params.get("size_bytes") or 1 << 30
    return one_number(probe.probe_id, value, int(str(size)))


def test_healthy_hosts_do_not_fail_by_limits_for_faster_lines() -> None:
    """200 Gb/s RNICs under a baseline for 400: nothing judges them, and that is said."""
    found = judged(with_lines(200.0), 0.49, *SPECS)
    assert {verdict.outcome for _, verdict in found} == {Outcome.INCONCLUSIVE}
    reasons = {verdict.reason.rpartition(": ")[2] for _, verdict in found}
    assert reasons == {
        "limit 360 Gb/s is above the line rate of 200 Gb/s",
        "limit 384 Gb/s is above the line rate of 200 Gb/s",
        "limit 2944 Gb/s is above the line rate of 8 RNICs together, 1600 Gb/s",
    }


def test_a_slow_rnic_among_them_fails_by_its_peers() -> None:
    """That no limit judges them saves no part that is slower than the others."""
    topology = with_lines(200.0)
    found = judged(topology, 0.49, LoopbackSpec(), RnicToRnicSpec(), slow="gpu003/mlx5_2")
    results = {probe.probe_id: _result(probe, 0.49, "gpu003/mlx5_2") for probe, _ in found}
    verdicts = {probe.probe_id: verdict for probe, verdict in found}
    sure, _ = confirmed([probe for probe, _ in found], verdicts, results, topology=topology)
    bad = [probe for probe, _ in found if sure[probe.probe_id].outcome is Outcome.FAIL]
    assert len(bad) == 10 + 14
    assert all("mlx5_2" in (probe.params["rnic"], probe.params.get("peer_rnic")) for probe in bad)
    assert {probe.hosts for probe in bad} == {("gpu003",)}


@pytest.mark.parametrize("spec", SPECS)
def test_a_link_that_trained_at_half_its_line_still_fails(spec: ProbeSpec) -> None:
    """What the line carries is the inventory's word, not what came up: 400 Gb/s RNICs at 196 Gb/s are bad."""
    assert {verdict.outcome for _, verdict in judged(with_lines(400.0), 0.49, spec)} == {Outcome.FAIL}


def test_as_much_as_the_line_is_not_reached_by_any_payload(rack: Topology) -> None:
    """The limit for a burn of 400 Gb/s links is half of that: all of a line of 200."""
    params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0", "size_bytes": 65536, "series": "s", "name": "link_burn"}
    probe = Probe("p", "link_burn", "x", ("gpu001", "gpu002"), (), 5, params)

    def outcome(topology: Topology, value: float) -> Outcome:
        judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", FOR_400)}, JudgeSettings(marginal=0.0), topology)
        return judge.judge([(probe, one_number("p", value))])[0].outcome

    assert outcome(with_lines(200.0), 196.0) is Outcome.INCONCLUSIVE
    assert outcome(rack, 196.0) is Outcome.FAIL
    mixed = dict(with_lines(400.0).hosts) | {"gpu002": with_lines(200.0).hosts["gpu002"]}
    assert outcome(replace(with_lines(400.0), hosts=mixed), 196.0) is Outcome.INCONCLUSIVE  # the slower end counts


def test_a_tree_is_judged_though_its_limit_is_above_the_lines() -> None:
    """Its bus bandwidth may be more than the lines carry."""
    topology = with_lines(200.0)
    limits = (Limit("tor_all_reduce", 2000.0, "x", algorithm="TREE"),)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, JudgeSettings(marginal=0.0), topology)
    spec = TorAllReduceSpec(algorithm="TREE")
    probes = list(expand_phase(Phase("p", (spec,)), topology, tuple(topology.hosts)))
    found = judge.judge((probe, _result(probe, 0.49, "")) for probe in probes)
    assert {verdict.outcome for verdict in found} == {Outcome.FAIL}


def test_hosts_with_other_lines_are_asked_by_their_own() -> None:
    """What a limit asks is worked out once for a make: a host with half the line is another make."""
    rack, slow = rack_topology(8), dgx_platform(line_rate_gbps=200.0)
    mixed = {
        name: replace(host, platform=slow) if name in ("gpu005", "gpu006") else host
        for name, host in rack.hosts.items()
    }
    found = judged(replace(rack, hosts=mixed), 0.99, LoopbackSpec(), RnicToRnicSpec())
    unfit = {probe.hosts[0] for probe, verdict in found if verdict.outcome is Outcome.INCONCLUSIVE}
    assert unfit == {"gpu005", "gpu006"}
    assert {verdict.outcome for probe, verdict in found if probe.hosts[0] not in unfit} == {Outcome.PASS}
