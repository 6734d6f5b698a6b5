"""The kinds expand to MegaScale's meshes, with stable unique ids and their own ports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.probes.all_to_all import AllToAllSpec, groups
from fabric.probes.kinds import KINDS, expand_phase, left_out
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.conftest import rack_topology


@pytest.mark.parametrize(
    ("spec", "count"),
    [(LoopbackSpec(), 80), (RnicToRnicSpec(), 56), (AllToAllSpec(), 7), (AllToAllSpec(halves=False), 1)],
)
def test_probes_per_host(spec: ProbeSpec, count: int) -> None:
    """8 x (8 + 2) = 80 loopback pairs, 8 x 7 = 56 ordered RNIC pairs, all-to-all whole and in 6 halves."""
    topology = rack_topology(1)
    assert len(expand_phase(Phase("p", (spec,)), topology, tuple(topology.hosts))) == count


def test_commands_name_both_ends(rack: Topology) -> None:
    """A GPU loopback has its server and client on the same RNIC and GPU, the server first."""
    probes = expand_phase(Phase("p", (LoopbackSpec(),)), rack, ("gpu001",))
    probe = next(p for p in probes if p.params["rnic"] == "mlx5_3" and p.params["endpoint"] == "gpu5")
    commands = KINDS["loopback"].commands(probe, rack)
    server, client = commands.servers[0], commands.client
    assert server.ready_port == probe.params["port"]
    assert client.argv[-1] == "127.0.0.1"
    for side in (server, client):
        assert any("mlx5_3" in word for word in side.argv)
        assert "--use_cuda=5" in side.argv


@pytest.mark.parametrize("gpu", range(8))
def test_halves_name_each_gpu(gpu: int) -> None:
    """Every GPU has a signature of its own among the halves."""
    halves = [members for label, members in groups(range(8), halves=True) if label != "all"]
    signatures = {g: tuple(g in half for half in halves) for g in range(8)}
    assert list(signatures.values()).count(signatures[gpu]) == 1


@pytest.mark.parametrize(("hosts", "pairs"), [(1, 0), (2, 1), (3, 3), (8, 8)])
def test_tor_ring(hosts: int, pairs: int) -> None:
    """n > 2 hosts form a ring of n pairs; two form one; one has no neighbour, and that is said."""
    topology = rack_topology(hosts)
    phase = Phase("p", (TorAllReduceSpec(),))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    assert len(probes) == pairs
    notes = left_out(phase, tuple(topology.hosts), probes, topology)
    assert [note.split(":")[0] for note in notes] == (["no tor_all_reduce on gpu001"] if hosts == 1 else [])


def test_tor_forces_ring_and_exact_devices(rack: Topology) -> None:
    """NCCL_ALGO=RING and exact device names reach the launched processes."""
    probe = expand_phase(Phase("p", (TorAllReduceSpec(),)), rack, tuple(rack.hosts))[0]
    argv = KINDS["tor_all_reduce"].commands(probe, rack).client.argv
    assert "NCCL_ALGO=RING" in argv
    assert any(word.startswith("NCCL_IB_HCA==mlx5_0:1,") for word in argv)


def test_rnics_that_nothing_joins_are_not_measured_and_that_is_said() -> None:
    """Rails by themselves: no pair of RNICs has a way; nothing is missed, and a note says why."""
    listed = rack_topology(2)
    rails = replace(listed, switches={name: one for name, one in listed.switches.items() if one.tier == "leaf"})
    phase = Phase("p", (RnicToRnicSpec(),))
    probes = expand_phase(phase, rails, tuple(rails.hosts))
    assert probes == []
    said = left_out(phase, tuple(rails.hosts), probes, rails)
    assert said == ["note: rnic_to_rnic on gpu[001-002]: 56 of 56 pairs are not measured: nothing joins their leaves"]
