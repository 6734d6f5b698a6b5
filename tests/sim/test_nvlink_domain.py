"""Hosts that NVLink joins (GB200 NVL72): their collectives need no network, and are not judged by its limits."""

from dataclasses import replace

import pytest

from benchmarks.measured_rack import dgx_platform, rack_topology
from fabric.judge.locate.candidates import components_of
from fabric.model.inventory import Fault, MockSettings
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Topology, joined_by_nvlink
from fabric.model.verdict import Limit, most_specific
from fabric.probes.kinds import KINDS, expand_phase
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.sim.world import World

PLATFORM = replace(dgx_platform("gb200"), nvlink_domain="rack")


def rack(hosts: int = 4, *, racks: int = 1, env: tuple[tuple[str, str], ...] = ()) -> Topology:
    """Hosts under one set of leaves, in so many racks."""
    plain = rack_topology(hosts)
    platform = replace(PLATFORM, env=env)
    made = {
        name: replace(host, platform=platform, rack=f"r{number * racks // hosts}")
        for number, (name, host) in enumerate(plain.hosts.items())
    }
    return replace(plain, hosts=made)


def probes(topology: Topology, phase: Phase | None = None) -> list[Probe]:
    """All-reduces of neighbours."""
    return expand_phase(phase or Phase("p", (TorAllReduceSpec(),)), topology, tuple(topology.hosts))


def test_a_rack_is_one_domain() -> None:
    """And two racks are two; hosts of other makes are none."""
    assert joined_by_nvlink(tuple(rack().hosts.values()))
    assert not joined_by_nvlink(tuple(rack(racks=2).hosts.values()))
    assert not joined_by_nvlink(tuple(rack_topology(2).hosts.values()))
    assert [probe.params.get("link_class") for probe in probes(rack(4, racks=2))].count("nvlink") == 2


def test_mnnvl_off_goes_over_the_network() -> None:
    """By the site's variable or the phase's."""
    off = (("NCCL_MNNVL_ENABLE", "0"),)
    assert {probe.params.get("link_class") for probe in probes(rack())} == {"nvlink"}
    assert {probe.params.get("link_class") for probe in probes(rack(env=off))} == {None}
    assert {one.params.get("link_class") for one in probes(rack(), Phase("p", (TorAllReduceSpec(),), env=off))} == {
        None
    }


def test_limits_of_the_network_do_not_judge_nvlink() -> None:
    """Only one that says so; and what explains a slow one are the hosts and their NVLink, no RNIC and no leaf."""
    network = Limit("tor_all_reduce", 368.0, "issue 290", algorithm="RING")
    nvlink = replace(network, at_least_gbps=6000.0, link_class="nvlink")
    key = ("tor_all_reduce", "nvlink", 1 << 30, 16, "RING")
    assert most_specific((network,), key) is None
    assert most_specific((network, nvlink), key) is nvlink
    kinds = {one.kind for one in components_of(probes(rack())[0], rack())}
    assert kinds == {"nvlink", "host"}


@pytest.mark.parametrize(
    ("env", "least_gbps", "most_gbps"), [((), 5000, 8000), ((("NCCL_MNNVL_ENABLE", "0"),), 1000, 3200)]
)
def test_the_simulated_rack_goes_the_same_way(kit, env, least_gbps: float, most_gbps: float) -> None:
    """A slow RNIC is felt only over the network."""
    topology = rack(2, env=env)
    command = KINDS["tor_all_reduce"].commands(probes(topology)[0], topology).client
    settings = MockSettings(noise_cv=0.0, faults=(Fault("gpu001/mlx5_3", "slow", 0.5),))
    (done,) = kit.played(World(topology, settings, seed=1), [(0.0, "gpu001", " ".join(command.argv))])
    assert least_gbps < kit.busbw_gbps(done.stdout)[-1] < most_gbps
