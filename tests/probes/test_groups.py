"""Groups of hosts: who is in which, in what order, and the command that starts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.plan.schedule import schedule
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.group_all_to_all import GroupAllToAllSpec
from fabric.probes.kinds import KINDS, expand_phase, left_out
from tests.conftest import rack_topology


def expanded(spec: ProbeSpec, hosts: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """The hosts of each probe on a rack of so many, and the notes on what is left out."""
    topology = rack_topology(hosts)
    phase = Phase("p", (spec,))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    return [probe.hosts for probe in probes], left_out(phase, tuple(topology.hosts), probes, topology)


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        (GroupAllReduceSpec(), 8),
        (GroupAllReduceSpec(hosts=4), 4),
        (GroupAllReduceSpec(gpus=24), 3),
        (GroupAllReduceSpec(hosts=9), 0),
        (GroupAllReduceSpec(gpus=20), 0),
        (GroupAllReduceSpec(gpus=8), 0),
    ],
)
def test_a_group_is_the_first_hosts(spec: GroupAllReduceSpec, hosts: int) -> None:
    """As many as asked for, in the order of the run; too few, half a host or one host are noted, the rest is not."""
    groups, notes = expanded(spec, 8)
    assert groups == ([tuple(f"gpu{number:03d}" for number in range(1, hosts + 1))] if hosts else [])
    assert [note.split(":")[0] for note in notes] == ([] if hosts else ["no group_all_reduce on gpu[001-008]"])


@pytest.mark.parametrize(
    ("pairing", "groups_of", "groups"),
    [
        ("across", 2, ["14", "25", "36"]),
        ("neighbours", 2, ["12", "34", "56"]),
        ("across", 3, ["135", "246"]),
        ("neighbours", 3, ["123", "456"]),
    ],
)
def test_pairings(pairing: str, groups_of: int, groups: list[str]) -> None:
    """Across: as far apart in the list as it goes; neighbours: one after the other."""
    found, _ = expanded(ConcurrentRingsSpec(pairing=pairing, groups_of=groups_of), 6)
    assert ["".join(host[-1] for host in group) for group in found] == groups


@given(
    hosts=st.integers(1, 40),
    groups_of=st.integers(2, 9),
    pairing=st.sampled_from(["across", "neighbours", "random"]),
    seed=st.integers(0, 5),
    repeat=st.integers(1, 3),
)
def test_groups_are_disjoint_and_start_together(
    hosts: int, groups_of: int, pairing: str, seed: int, repeat: int
) -> None:
    """No host is in two groups, only what fills no group is left over, and the first of every group starts at once."""
    topology = rack_topology(hosts)
    spec = ConcurrentRingsSpec(groups_of=groups_of, pairing=pairing, seed=seed, repeat=repeat)
    phase = Phase("p", (spec,))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    groups = {probe.hosts for probe in probes}
    names = [name for group in groups for name in group]
    assert len(names) == len(set(names)) == hosts - hosts % groups_of
    assert len(probes) == len(groups) * repeat == len({probe.probe_id for probe in probes})
    assert {probe.params["group"] for probe in probes} == set(range(len(groups)))
    starts = [slot.start_s for slot in schedule(probes).slots]
    assert starts.count(0.0) == len(groups)
    assert bool(left_out(phase, tuple(topology.hosts), probes, topology)) == (hosts % groups_of > 0)


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_one_command_starts_all_ranks(rack: Topology, launcher: str) -> None:
    """Every host of the group is named in order, eight ranks each, with RING forced; the first host launches."""
    phase = Phase("p", (GroupAllReduceSpec(launcher=launcher),))
    probe = expand_phase(phase, rack, tuple(rack.hosts))[0]
    command = KINDS[probe.kind].commands(probe, rack).client
    assert command.host == probe.hosts[0] == "gpu001"
    text = " ".join(command.argv)
    named = ",".join(f"{host}:8" for host in rack.hosts) if launcher == "mpirun" else ",".join(rack.hosts)
    assert named in text or "gpu[001-" in text
    assert f"{8 * len(rack.hosts)}" in command.argv or f"--ntasks={8 * len(rack.hosts)}" in text
    assert "NCCL_ALGO=RING" in text
    assert set(probe.claims) == {
        f"{host}/{part}{n}" for host in rack.hosts for part in ("gpu", "mlx5_") for n in range(8)
    }


@pytest.mark.parametrize(("hosts", "counts"), [(1, []), (2, [2]), (6, [2, 4, 6]), (8, [2, 4, 8])])
def test_a_curve_doubles_until_it_has_all(hosts: int, counts: list[int]) -> None:
    """The first 2, 4, 8 and so on, and all; each has the first host, so no two run at once."""
    for spec in (GroupAllReduceSpec(scaling=True), GroupAllToAllSpec(scaling=True)):
        assert [len(group) for group in expanded(spec, hosts)[0]] == counts


def test_all_to_all_over_hosts_is_nccls(rack: Topology) -> None:
    """alltoall_perf over all ranks, without an algorithm."""
    probe = expand_phase(Phase("p", (GroupAllToAllSpec(),)), rack, tuple(rack.hosts))[0]
    argv = KINDS[probe.kind].commands(probe, rack).client.argv
    assert "alltoall_perf" in argv
    assert not any("NCCL_ALGO" in word for word in argv)
    assert argv[argv.index("-np") + 1] == "32"
