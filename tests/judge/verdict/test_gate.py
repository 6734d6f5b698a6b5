"""Who may go on to the next phase: not the host that is bad, but its neighbours and who failed only with it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from benchmarks.measured_rack import one_number
from fabric.judge.verdict.conclude import without_returned_partners
from fabric.judge.verdict.during_run import out_after
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.repair import Because
from fabric.model.scenario import JudgeSettings, Phase
from fabric.model.topology import Topology, Uplinks
from fabric.model.verdict import CAME_BACK, Baseline, Limit, Suspect
from fabric.probes.again import AgainSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec

HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")
LIMITS = (Limit("tor_all_reduce", 100.0, "test"), Limit("loopback", 100.0, "test"))


def gate(rack: Topology, measured: dict[tuple[str, ...], float | str]) -> set[str]:
    """Who is out after tor_all_reduce (loopback of one host) gave these numbers; a name: ERROR of that host."""
    probes, results = [], {}
    for hosts, value in measured.items():
        kind = "tor_all_reduce" if len(hosts) > 1 else "loopback"
        name = f"tor/{'+'.join(hosts)}/{kind}"
        params = {"rnic": "mlx5_0", "endpoint": "numa0", "ranks": 16, "sizes_bytes": (1 << 30,)}
        probes.append(Probe(name, kind, "tor", hosts, (), 1.0, params))
        if isinstance(value, str):
            results[name] = ProbeResult(name, 1, (), Outcome.ERROR, "lost", 0.0, 1.0, value)
        else:
            metric = "bw_average" if kind == "loopback" else "busbw_out_of_place"
            results[name] = ProbeResult(
                name, 1, (Measurement(name, metric, value, "Gb/s", 1 << 30),), None, "", 0.0, 1.0
            )
    return set(
        out_after(
            Phase("tor", ()),
            probes,
            results,
            judge=Judge({"h100-ndr": Baseline("h100-ndr", "f", LIMITS)}, JudgeSettings(marginal=0.0), rack),
        )
    )


def ring(*values: float | str) -> dict[tuple[str, ...], float | str]:
    """Four hosts, each measured with the next."""
    return {(HOSTS[i], HOSTS[(i + 1) % 4]): value for i, value in enumerate(values)}


@pytest.mark.parametrize(
    ("measured", "out"),
    [
        (ring(50.0, 50.0, 400.0, 400.0), {"gpu002"}),  # its neighbours are cleared by their other partners
        ({("gpu001", "gpu002"): 50.0, ("gpu003", "gpu004"): 400.0}, {"gpu001", "gpu002"}),  # nobody clears them
        ({("gpu001", "gpu002"): 50.0, ("gpu001",): 390.0, ("gpu002",): 390.0}, {"gpu001", "gpu002"}),  # nor they alone
        (ring("gpu002", 400.0, 400.0, 400.0), {"gpu002"}),  # the error is its own, whoever clears it
        ({**ring(400.0, 400.0, 400.0, 400.0), ("gpu003",): 50.0}, {"gpu003"}),  # what it shows alone no pair clears
    ],
)
def test_a_host_is_out_unless_another_partner_clears_it(
    rack: Topology, measured: dict[tuple[str, ...], float | str], out: set[str]
) -> None:
    assert gate(rack, measured) == out


def again(because: Because | None) -> Phase:
    """A phase that measures evidence again."""
    return Phase("tor", (AgainSpec(because=because),))


def out(rack: Topology, phase: Phase, value: float, *pairs: tuple[str, ...]) -> dict[str, str]:
    """Who is out after these pairs measured this much."""
    probes, results = [], {}
    for number, hosts in enumerate(pairs):
        name = f"tor/{'+'.join(hosts)}/tor_all_reduce.r{number}"
        probes.append(Probe(name, "tor_all_reduce", "tor", hosts, (), 1.0, {"ranks": 16, "sizes_bytes": (1 << 30,)}))
        measured = (Measurement(name, "busbw_out_of_place", value, "Gb/s", 1 << 30),)
        results[name] = ProbeResult(name, 1, measured, None, "", 0.0, 1.0)
    limits = LIMITS if phase.probes else ()
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, JudgeSettings(marginal=0.0), rack)
    return out_after(phase, probes, results, judge=judge)


def test_who_is_only_a_partner_of_a_repaired_host_did_not_fail_with_it(rack: Topology) -> None:
    """The probes were chosen because of the repaired host: they say nothing of a neighbour."""
    pairs = (("gpu001", "gpu002"), ("gpu001", "gpu002"))
    because = Because("check/1", "/there", ("gpu002",), quick=False, suspects=(), evidence=())
    assert set(out(rack, again(because), 50.0, *pairs)) == {"gpu002"}
    assert set(out(rack, again(None), 50.0, *pairs)) == {"gpu001", "gpu002"}


def test_where_nobody_could_be_judged_it_is_said_what_to_do(rack: Topology) -> None:
    found = out(rack, Phase("tor", ()), 50.0, ("gpu001", "gpu002"))
    assert set(found) == {"gpu001", "gpu002"}
    assert "1 tor_all_reduce inconclusive; no host could be judged: give its numbers a limit" in found["gpu001"]


def test_of_hosts_that_failed_no_limit_is_asked_for(rack: Topology) -> None:
    assert out(rack, again(None), 50.0, *[("gpu001", "gpu002")] * 3)["gpu001"] == "3 tor_all_reduce fail"


def cross_rail(rack: Topology, bad: set[tuple[str, ...]]) -> dict[str, str]:
    """
    Who is out after each RNIC of each host sent to each other of it over the leaves, and to its own GPUs and memory.

    *bad*: host and devices, or endpoint.
    """
    rack = replace(rack, uplinks=(Uplinks(rack.hosts["gpu001"].leaves, ("spine0",), 4, 400.0),))
    probes = expand_phase(Phase("self-check", (LoopbackSpec(), RnicToRnicSpec())), rack, HOSTS)
    results = {}
    for probe in probes:
        ends = (
            probe.hosts[0],
            str(probe.params["rnic"]),
            str(probe.params.get("peer_rnic", probe.params.get("endpoint"))),
        )
        results[probe.probe_id] = one_number(probe.probe_id, 200.0 if ends in bad else 392.0, 64 << 10)
    limits = (Limit("rnic_to_rnic", 364.0, "test"), Limit("loopback", 364.0, "test"))
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits)}, JudgeSettings(marginal=0.0), rack)
    return out_after(Phase("self-check", ()), probes, results, judge=judge)


def test_a_bad_uplink_leaves_no_host_out(rack: Topology) -> None:
    """Every host shows it where it sends from that leaf, or to it: no part of a host is suspected."""
    rnics = [rnic.device for rnic in rack.hosts["gpu001"].platform.rnics]
    through = {(host, *ends) for host in HOSTS for ends in permutations(rnics, 2) if "mlx5_3" in ends}
    assert cross_rail(rack, through) == {}


def test_a_port_that_may_as_well_be_the_cable_above_its_leaf_leaves_nobody_out(rack: Topology) -> None:
    """Each of its probes crosses both; later phases measure it with other hosts, and can tell."""
    rnics = [rnic.device for rnic in rack.hosts["gpu001"].platform.rnics]
    through = {("gpu002", *ends) for ends in permutations(rnics, 2) if "mlx5_3" in ends}
    assert cross_rail(rack, through) == {}


def test_a_path_inside_the_host_leaves_it_out(rack: Topology) -> None:
    """Nothing above the leaves explains one pair of RNICs alone."""
    assert cross_rail(rack, {("gpu002", "mlx5_3", "mlx5_4"), ("gpu002", "mlx5_4", "mlx5_3")}).keys() == {"gpu002"}


PROBES = [
    Probe("p1", "pairwise", "soak", ("gpu009", "gpu004"), (), 1.0, {}),
    Probe("p2", "pairwise", "soak", ("gpu004", "gpu005"), (), 1.0, {}),
]
BAD = Suspect("gpu009/mlx5_2", "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu009",), probes=("p1",))


@pytest.mark.parametrize(("failed", "is_named"), [(("p1",), False), (("p1", "p2"), True)])
def test_who_failed_only_with_a_suspected_host_did_not_come_back(failed: tuple[str, ...], is_named: bool) -> None:
    seen = ("failed and came back",)
    back = Suspect("gpu004", "host", Outcome.FAIL, 0.6, seen, hosts=("gpu004",), probes=failed, course=CAME_BACK)
    assert (back in without_returned_partners([BAD, back], PROBES)) is is_named
