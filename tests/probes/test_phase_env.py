"""The variables of a phase reach every collective of it, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.probe import Probe
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.kinds import KINDS, expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.conftest import dgx_platform, rack_topology

ENV = (("NCCL_IB_TIMEOUT", "22"), ("NCCL_IB_SL", "1"), ("NCCL_TUNER", "a=b c"))
COLLECTIVES: list[ProbeSpec] = [
    AllToAllSpec(),
    TorAllReduceSpec(),
    TorAllReduceSpec(launcher="srun"),
    GroupAllReduceSpec(),
    ConcurrentRingsSpec(),
]


def probes(spec: ProbeSpec, env: tuple[tuple[str, str], ...] = (), topology: Topology | None = None) -> list[Probe]:
    """All probes of a phase with these variables."""
    topology = topology or rack_topology(4)
    return expand_phase(Phase("p", (spec,), env=env), topology, tuple(topology.hosts))


def given(probe: Probe, topology: Topology) -> set[str]:
    """Every NAME=VALUE that a probe's command hands on, in its argv or its environment."""
    client = KINDS[probe.kind].commands(probe, topology).client
    return {*client.argv, *(f"{name}={value}" for name, value in client.env)}


@pytest.mark.parametrize("spec", COLLECTIVES, ids=["all_to_all", "mpirun", "srun", "group", "rings"])
def test_every_collective_is_given_the_variables(spec: ProbeSpec) -> None:
    """Whatever starts it; a value may hold blanks and equal signs."""
    for probe in probes(spec, ENV):
        assert {"NCCL_IB_TIMEOUT=22", "NCCL_IB_SL=1", "NCCL_TUNER=a=b c"} <= given(probe, rack_topology(4))


@pytest.mark.parametrize("spec", [*COLLECTIVES, LoopbackSpec(), RnicToRnicSpec()], ids=lambda spec: type(spec).__name__)
def test_without_variables_nothing_changes(spec: ProbeSpec) -> None:
    """And with them no id, claim or duration does: baselines and resumed runs find their probes."""
    plain, varied = probes(spec), probes(spec, ENV)
    assert all("env" not in probe.params for probe in plain)
    assert [replace(probe, params={}) for probe in plain] == [replace(probe, params={}) for probe in varied]


def test_the_phase_wins_over_the_platform() -> None:
    """And the probe's own choice over both."""
    platform = replace(dgx_platform(), env=(("NCCL_IB_TIMEOUT", "18"), ("NCCL_IB_TC", "106")))
    plain = rack_topology(2)
    hosts = {name: replace(host, platform=platform) for name, host in plain.hosts.items()}
    topology = replace(plain, hosts=hosts)
    (probe,) = probes(TorAllReduceSpec(), (*ENV, ("NCCL_ALGO", "TREE")), topology)
    found = given(probe, topology)
    assert {"NCCL_IB_TIMEOUT=22", "NCCL_IB_TC=106", "NCCL_ALGO=RING"} <= found
    assert not found & {"NCCL_IB_TIMEOUT=18", "NCCL_ALGO=TREE"}
