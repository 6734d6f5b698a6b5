"""From which probes are bad follows which part is bad, and no other part."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import normal_gbps, one_number, rack_topology, slow_rnic
from fabric.judge.locate.candidates import components_of
from fabric.judge.locate.merged import merged
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, NamedPart, Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.builders import asked, on_mock, suspects
from tests.places import INVENTORY, SCENARIOS

INTRA = Phase("intra-host", (LoopbackSpec(repeat=3), RnicToRnicSpec(repeat=3), AllToAllSpec(repeat=3)))
TOR = Phase("tor", (TorAllReduceSpec(repeat=3),))


def named(
    topology: Topology, phase: Phase, bad: Callable[[Probe], bool], outcome: Outcome = Outcome.FAIL
) -> tuple[Suspect, ...]:
    """Suspects when exactly the *bad* probes have *outcome* and all others pass."""
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    verdicts = {
        probe.probe_id: ProbeVerdict(probe.probe_id, outcome, "", 100.0, 350.0)
        if bad(probe)
        else ProbeVerdict(probe.probe_id, Outcome.PASS, "", 390.0, 350.0)
        for probe in probes
    }
    return suspects(probes, verdicts, topology=topology, outcome=outcome)


def loopback(probe: Probe, host: str) -> bool:
    """A loopback of this host."""
    return probe.kind == "loopback" and probe.hosts == (host,)


def crosses(probe: Probe, claim: str) -> bool:
    """A loopback or RNIC pair that goes over a PCIe switch's uplink."""
    return probe.kind in ("loopback", "rnic_to_rnic") and any(c.startswith(f"{claim}:") for c in probe.claims)


def touches_numa1(probe: Probe) -> bool:
    """One of the two RNICs is on the second memory node."""
    return any(str(probe.params[end]) >= "mlx5_4" for end in ("rnic", "peer_rnic"))


CASES: list[tuple[str, Callable[[Probe], bool], str]] = [
    (
        "a whole RNIC",
        lambda p: p.hosts == ("gpu002",) and "mlx5_3" in (p.params.get("rnic"), p.params.get("peer_rnic")),
        "gpu002/mlx5_3",
    ),
    (
        "an RNIC to one NUMA node's GPUs",
        lambda p: (
            loopback(p, "gpu003")
            and p.params["rnic"] == "mlx5_2"
            and p.params["endpoint"] in ("gpu4", "gpu5", "gpu6", "gpu7")
        ),
        "gpu003/mlx5_2->numa1-gpus",
    ),
    (
        "one path",
        lambda p: loopback(p, "gpu003") and (p.params["rnic"], p.params["endpoint"]) == ("mlx5_2", "gpu6"),
        "gpu003/mlx5_2->gpu6",
    ),
    (
        "a memory node",
        lambda p: (
            (loopback(p, "gpu001") and p.params["endpoint"] == "numa1")
            or (p.kind == "rnic_to_rnic" and p.hosts == ("gpu001",) and touches_numa1(p))
        ),
        "gpu001/numa1",
    ),
    (
        "a GPU's PCIe side",
        lambda p: loopback(p, "gpu001") and p.params["endpoint"] == "gpu4",
        "gpu001/gpu4:pcie",
    ),
    (
        "a GPU's NVLink",
        lambda p: p.kind == "all_to_all" and p.hosts == ("gpu004",) and 5 in tuple(p.params["gpus"]),  # type: ignore[arg-type]
        "gpu004/gpu5:nvlink",
    ),
    (
        "a dead GPU",
        lambda p: p.hosts == ("gpu004",) and ("gpu5" in str(p.params.get("endpoint")) or 5 in p.params.get("gpus", ())),  # type: ignore[operator]
        "gpu004/gpu5",
    ),
    ("a PCIe switch's uplink", lambda p: crosses(p, "gpu002/pcie1"), "gpu002/pcie1:uplink"),
    (
        "an RNIC's port",
        lambda p: (
            p.kind == "rnic_to_rnic"
            and p.hosts == ("gpu002",)
            and "mlx5_3" in (p.params["rnic"], p.params["peer_rnic"])
        ),
        "gpu002/mlx5_3:port",
    ),
    ("all NVLink of a host", lambda p: p.kind == "all_to_all" and p.hosts == ("gpu004",), "gpu004/nvlink"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bad", "component"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_fault_is_one_suspect(rack: Topology, bad: Callable[[Probe], bool], component: str) -> None:
    """However many probes see a fault, one component is named, and nothing stays ambiguous."""
    found = named(rack, INTRA, bad)
    assert [(suspect.component, suspect.ambiguous_with) for suspect in found] == [(component, ())]


def test_two_faults_of_one_host_are_two_suspects(rack: Topology) -> None:
    """A slow RNIC and a GPU with a slow PCIe side are both named."""
    found = named(
        rack,
        INTRA,
        lambda p: (
            p.hosts == ("gpu001",)
            and ("mlx5_0" in (p.params.get("rnic"), p.params.get("peer_rnic")) or p.params.get("endpoint") == "gpu6")
        ),
    )
    assert {suspect.component for suspect in found} == {"gpu001/mlx5_0", "gpu001/gpu6:pcie"}


def test_one_host_of_a_ring(rack: Topology) -> None:
    """A host that is slow with both neighbours is named; its neighbours are not."""
    found = named(rack, TOR, lambda p: "gpu002" in p.hosts)
    assert [suspect.component for suspect in found] == ["gpu002"]


def test_a_whole_tor_is_the_leaf() -> None:
    """When every host of a ToR is slow, all of them are named, or their leaves, and not each host."""
    from benchmarks.measured_rack import rack_topology

    found = named(rack_topology(6), TOR, lambda p: True)
    assert [(one.component, one.ambiguous_with[:2]) for one in found] == [("gpu[001-006]", ("leaf0", "leaf1"))]


def test_one_bad_pair_of_two_stays_ambiguous() -> None:
    """Two hosts alone cannot be told apart, and the verdict says so instead of blaming one."""
    from benchmarks.measured_rack import rack_topology

    found = named(rack_topology(2), TOR, lambda p: True)
    assert len(found) == 1
    assert {found[0].component, *found[0].ambiguous_with} >= {"gpu001", "gpu002"}


def test_healthy_means_nobody(rack: Topology) -> None:
    """Nothing bad, nobody named."""
    assert not named(rack, INTRA, lambda p: False)


@pytest.mark.slow
def test_silent_host_is_one_error(rack: Topology) -> None:
    """A host on which nothing could be measured is one suspect of kind host, outcome ERROR."""
    found = named(rack, INTRA, lambda p: p.hosts == ("gpu003",), Outcome.ERROR)
    assert [(s.component, s.kind, s.outcome) for s in found] == [("gpu003", "host", Outcome.ERROR)]


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("killed", "oom-kill"),
        ("lacking", "is not there"),
        ("other_mpi", "not Open MPI's"),
        ("unbuilt", "built without CUDA"),
        ("outdated", "does not know an option"),
    ],
)
def test_what_a_host_lacks_is_the_advice(rack: Topology, condition: str, advice: str) -> None:
    """Also where the host was given up then, so that its other probes say nothing; it is no part inside the host."""
    lost = [probe for probe in expand_phase(INTRA, rack, tuple(rack.hosts)) if probe.hosts == ("gpu003",)]
    verdicts = {
        probe.probe_id: ProbeVerdict(
            probe.probe_id, Outcome.ERROR, "", named=NamedPart("gpu003", condition) if number else None
        )
        for number, probe in enumerate(lost)
    }
    (found,) = suspects(lost, verdicts, topology=rack, outcome=Outcome.ERROR)
    assert (found.component, found.kind) == ("gpu003", "host")
    assert advice in found.next_step


def test_of_two_hosts_the_one_whose_answer_cannot_be_read_is_named(rack: Topology) -> None:
    """Its partner is not, although the pair was measured by nobody else."""
    probes = expand_phase(TOR, rack, tuple(rack.hosts))
    garbled = NamedPart(probes[0].hosts[0], "garbled")
    verdicts = {probe.probe_id: ProbeVerdict(probe.probe_id, Outcome.PASS, "", 390.0) for probe in probes}
    verdicts[probes[0].probe_id] = ProbeVerdict(probes[0].probe_id, Outcome.ERROR, "", named=garbled)
    found = suspects(probes, verdicts, topology=rack, outcome=Outcome.ERROR)
    assert [(s.component, s.kind, s.ambiguous_with) for s in found] == [(garbled.component, "host", ())]


def test_a_host_that_dies_while_something_is_measured_again_is_named(rack: Topology) -> None:
    """What was run because one part had dipped says nothing of slow parts, but a host that died in it did die."""
    probes = list(expand_phase(TOR, rack, tuple(rack.hosts)))
    probes[0] = replace(probes[0], params={**probes[0].params, AGAIN: "gpu001/mlx5_0"})
    silent = NamedPart(probes[0].hosts[0], "silent")
    verdicts = {probe.probe_id: ProbeVerdict(probe.probe_id, Outcome.PASS, "", 390.0) for probe in probes}
    verdicts[probes[0].probe_id] = ProbeVerdict(probes[0].probe_id, Outcome.ERROR, "", named=silent)
    (found,) = suspects(probes, verdicts, topology=rack, outcome=Outcome.ERROR)
    assert (found.component, found.kind) == (silent.component, "host")


def test_what_cannot_show_a_fault_does_not_excuse_it(rack: Topology) -> None:
    """An RNIC held to 240 Gb/s is named although its paths that never carry more than 200 look good."""
    probes = expand_phase(INTRA, rack, tuple(rack.hosts))
    verdicts = {}
    for probe in probes:
        normal = 200.0 if probe.params.get("link_class") == "sys" else 390.0
        slow = probe.hosts == ("gpu001",) and "mlx5_0" in (probe.params.get("rnic"), probe.params.get("peer_rnic"))
        value = min(normal, 240.0) if slow else normal
        outcome = Outcome.FAIL if value < 0.9 * normal else Outcome.PASS
        verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", value)
    found = suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)
    assert [suspect.component for suspect in found] == ["gpu001/mlx5_0"]


def named_by_loopbacks(rack: Topology, carries: Callable[[Probe], float]) -> tuple[Suspect, ...]:
    """Suspects among loopbacks alone, of which each carries so much and must reach 97 % of what is normal."""
    probes = expand_phase(Phase("intra-host", (LoopbackSpec(repeat=2),)), rack, tuple(rack.hosts))
    verdicts = {}
    for probe in probes:
        value, normal = carries(probe), normal_gbps(probe)
        outcome = Outcome.FAIL if value < 0.97 * normal else Outcome.PASS
        verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", value, 0.97 * normal, expected_gbps=normal)
    return suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)


def test_an_rnic_a_little_slow_is_named_and_not_the_paths_that_are_fast_enough_to_show_it(rack: Topology) -> None:
    """-5 % is above what its paths to the other node carry, so nothing tells it from the path to its own node."""
    slow = slow_rnic("gpu002/mlx5_4", 0.945)
    found = named_by_loopbacks(rack, lambda probe: normal_gbps(probe) * slow(probe))
    assert [(suspect.component, suspect.ambiguous_with) for suspect in found] == [("gpu002/mlx5_4", ())]


def test_a_path_is_named_when_another_path_of_its_rnic_carries_more(rack: Topology) -> None:
    """The same loss on the way to the GPUs of its own node; memory there is reached at full speed."""

    def carries(probe: Probe) -> float:
        through = probe.hosts == ("gpu002",) and probe.params["rnic"] == "mlx5_4"
        to_gpus = str(probe.params["endpoint"]) in ("gpu4", "gpu5", "gpu6", "gpu7")
        return min(normal_gbps(probe), 375.0 if through and to_gpus else 400.0)

    found = named_by_loopbacks(rack, carries)
    assert [suspect.component for suspect in found] == ["gpu002/mlx5_4->numa1-gpus"]


@pytest.mark.parametrize("cap_gbps", [247.0, 245.0, 243.0])
def test_a_pcie_switch_is_named_though_the_slowest_way_through_it_hardly_shows_its_cap(cap_gbps: float) -> None:
    """It carries as much as what comes from the other socket reaches in any case (248 Gb/s)."""
    rack = rack_topology(8)

    def carries(probe: Probe) -> float:
        through = any(one.name == "gpu002/pcie0" for one in components_of(probe, rack))
        return min(normal_gbps(probe), cap_gbps if through else 400.0)

    assert [(one.component, one.ambiguous_with) for one in named_by_loopbacks(rack, carries)] == [("gpu002/pcie0", ())]


def test_a_host_whose_every_loopback_is_slow_is_not_sent_to_a_partner(rack: Topology) -> None:
    """A loopback has none; what its RNICs share, and another endpoint, tell more."""
    (found,) = named(rack, Phase("p", (LoopbackSpec(),)), lambda p: p.hosts == ("gpu002",))
    assert (found.component, found.kind) == ("gpu002", "host")
    assert "partner" not in found.next_step
    assert all(word in found.next_step for word in ("numactl", "lspci", "other endpoints"))
    (ring,) = named(rack, TOR, lambda p: "gpu002" in p.hosts)
    assert "with another partner" in ring.next_step


def test_a_pair_that_failed_once_is_no_memory_node_that_other_pairs_passed(rack: Topology) -> None:
    """Each part of its two hosts was passed by others, on other rails or with other partners: either RNIC may be it."""
    probes = expand_phase(Phase("soak", (PairwiseSpec(rounds=3),)), rack, tuple(rack.hosts))
    bad = next(probe for probe in probes if "gpu002" in probe.hosts)
    others = [probe for probe in probes if probe is not bad]
    verdicts = {probe.probe_id: ProbeVerdict(probe.probe_id, Outcome.PASS, "", 390.0) for probe in others}
    verdicts[bad.probe_id] = ProbeVerdict(bad.probe_id, Outcome.FAIL, "transport retry counter exceeded")
    (found,) = suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)
    assert {found.component, *found.ambiguous_with} >= {f"{host}/{bad.params['rnic']}" for host in bad.hosts}
    assert found.confidence <= 0.3


def test_a_host_that_fades_is_no_leaf_though_the_best_of_its_bad_rings_is_near_the_good_ones() -> None:
    """Good rings reach 2,950, the limit is 2,944: the first bad one of the host is as good as a good one."""
    rack = rack_topology(8)
    verdicts: dict[str, ProbeVerdict] = {}
    probes = []
    for number in range(12):
        ring = expand_phase(Phase(f"soak-r{number}", (TorAllReduceSpec(),)), rack, tuple(rack.hosts))
        for probe in ring:
            fading = 2941.0 * (1 - 0.04 * number) if "gpu002" in probe.hosts else 2950.0
            lone = number == 3 and {"gpu005", "gpu006"} == set(probe.hosts)
            value = 2941.0 if lone else fading
            outcome = Outcome.PASS if value > 2944 else Outcome.FAIL
            verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", value, 2944.0)
        probes += ring
    found = suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)
    assert found[0].component == "gpu002"
    assert not [one for one in found if one.kind == "leaf"]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_slow_at_one_moment_and_well_at_another_was_seen_once(at_once: bool) -> None:
    """Three rings of a leaf ran beside each other and were slow; at another time three others were not."""
    rack = rack_topology(18)
    hosts = {name: replace(host, leaves=(f"tor{n // 6}",) * 8) for n, (name, host) in enumerate(rack.hosts.items())}
    rack = replace(rack, hosts=hosts, switches={})
    probes = expand_phase(Phase("tor", (TorAllReduceSpec(),)), rack, tuple(rack.hosts))
    slow = {one.probe_id for one in [one for one in probes if hosts[one.hosts[0]].leaves[0] == "tor0"][::2]}
    verdicts = {
        one.probe_id: ProbeVerdict(one.probe_id, Outcome.PASS, "", 270.0 if one.probe_id in slow else 300.0, 200.0)
        for one in probes
    }
    results = {
        one.probe_id: one_number(one.probe_id, verdicts[one.probe_id].value_gbps or 0.0, at_s=at_s)
        for number, one in enumerate(probes)
        for at_s in (float(one.probe_id not in slow) if at_once else float(number),)
    }
    found = suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL, results=results)
    assert [one.component for one in found] == ([] if at_once else ["tor0"])


@pytest.mark.parametrize(("slow", "named_kinds"), [(2, []), (3, ["pair"])])
def test_two_slow_tests_of_two_hosts_may_be_chance_and_three_are_not(slow: int, named_kinds: list[str]) -> None:
    rack = rack_topology(2)
    rings = expand_phase(TOR, rack, tuple(rack.hosts))
    bad = {probe.probe_id for probe in rings[:slow]}
    assert [one.kind for one in named(rack, TOR, lambda probe: probe.probe_id in bad)] == named_kinds


@pytest.mark.slow
@pytest.mark.parametrize("seed", [621, 636])
def test_two_dips_of_a_pair_and_two_low_rings_of_eight_are_nobody(seed: int, tmp_path: Path) -> None:
    """A healthy rack with the noise of real ones failed a pair of hosts, or four hosts as a whole (0.99)."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    rack = (INVENTORY / "pod-64.yaml").read_text().replace("noise_cv: 0.003", "noise: real")
    (tmp_path / "pod.yaml").write_text(rack)
    wanted = asked(SCENARIOS / "self-check.yaml", inventory=tmp_path / "pod.yaml", hosts="gpu[001-008]")
    found = on_mock(wanted, tmp_path / "results", seed=seed).verdict.suspects
    assert not [one.component for one in found if one.outcome is Outcome.FAIL]


@pytest.mark.parametrize(
    ("condition", "advice"),
    [("silent", "check power"), ("refusing", "key, known_hosts or its sshd_config"), ("behind", "a jump host")],
)
def test_what_to_do_about_a_host_fits_why_it_was_not_reached(condition: str, advice: str) -> None:
    """Hosts of two kinds, which make different numbers of probes, are one suspect where the reason is one."""
    topology = rack_topology(3)
    probes = expand_phase(Phase("intra-host", (LoopbackSpec(),)), topology, tuple(topology.hosts))
    fewer = [one for one in probes if one.hosts != ("gpu003",) or one.params["rnic"] in ("mlx5_0", "mlx5_1")]
    verdicts = {
        one.probe_id: ProbeVerdict(
            one.probe_id, Outcome.ERROR, f"{one.hosts[0]}: no", named=NamedPart(one.hosts[0], condition)
        )
        for one in fewer
    }
    (found,) = merged(suspects(fewer, verdicts, topology=topology, outcome=Outcome.ERROR))
    assert (found.component, found.kind) == ("gpu[001-003]", "host")
    assert advice in found.next_step


@pytest.mark.parametrize("given_up", ["given up: no", "given up: 4 errors in a row, the last: no"])
def test_hosts_of_which_one_has_probes_that_were_given_up_are_one_suspect(given_up: str) -> None:
    """Which probes ran when a host went out of the run says nothing of what is wrong with it."""
    topology = rack_topology(2)
    probes = expand_phase(Phase("intra-host", (LoopbackSpec(),)), topology, tuple(topology.hosts))
    verdicts = {one.probe_id: ProbeVerdict(one.probe_id, Outcome.ERROR, f"{one.hosts[0]}: no") for one in probes}
    last = probes[-1]
    verdicts[last.probe_id] = replace(verdicts[last.probe_id], reason=f"{last.hosts[0]}: {given_up}")
    (found,) = merged(suspects(probes, verdicts, topology=topology, outcome=Outcome.ERROR))
    assert found.component == "gpu[001-002]"
