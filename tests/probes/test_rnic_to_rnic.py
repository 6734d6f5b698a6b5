"""Pairs of RNICs of one host: which of them leave their leaf, what they hold then, and which are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Topology, Uplinks
from fabric.probes.kinds import expand_phase, left_out
from fabric.probes.rnic_to_rnic import RnicToRnicSpec

PHASE = Phase("p", (RnicToRnicSpec(),))


def rack(*, spines: int = 4, hosts: int = 3, shared: bool = True, **platform: object) -> Topology:
    """Hosts on eight leaves of a rail each, under spines that all leaves share, or each leaf has of its own."""
    plain = rack_topology(hosts)
    leaves = plain.hosts["gpu001"].leaves
    if shared:
        uplinks: tuple[Uplinks, ...] = (Uplinks(leaves, tuple(f"spine{n}" for n in range(spines)), 1, 400.0),)
    else:
        uplinks = tuple(Uplinks((leaf,), (f"{leaf}-spine",), 1, 400.0) for leaf in leaves)
    made = {name: replace(host, platform=replace(host.platform, **platform)) for name, host in plain.hosts.items()}  # type: ignore[arg-type]
    return replace(plain, hosts=made, uplinks=uplinks)


def probes(topology: Topology) -> list[Probe]:
    """All of them."""
    return expand_phase(PHASE, topology, tuple(topology.hosts))


def test_a_pair_that_leaves_its_leaf_holds_a_cable_up_and_one_down() -> None:
    """Of two hosts each another one, so that both may run at once; limits know it by its class."""
    topology = rack()
    leaves = topology.hosts["gpu001"].leaves
    found = {one.probe_id: one for one in probes(topology)}
    for place, host in enumerate(("gpu001", "gpu002")):
        one = found[f"p/{host}/rnic_to_rnic.mlx5_0.mlx5_3"]
        assert one.claims[-2:] == (f"{leaves[0]}:up.{place}", f"{leaves[3]}:down.{place}")
        assert one.params["link_class"] == "cross_leaf"


@pytest.mark.parametrize("spines", [0, 1])
def test_what_is_not_described_is_as_if_below_one_leaf(spines: int) -> None:
    """No uplinks, or none that meet."""
    topology = rack(shared=False) if spines else replace(rack(), uplinks=())
    assert not [one for one in probes(topology) if "link_class" in one.params or len(one.claims) > 4]


def test_on_ethernet_they_are_left_out_and_that_is_said() -> None:
    """Unless the site has made a way for them; InfiniBand needs none."""
    cut, made = rack(link_layer="ethernet"), rack(link_layer="ethernet", cross_rail=True)
    assert probes(cut) == []
    (note,) = left_out(PHASE, tuple(cut.hosts), [], cut)
    assert note.startswith("note: rnic_to_rnic on gpu[001-003]: no pair from leaf to leaf: on Ethernet a host reaches")
    assert len(probes(made)) == len(probes(rack())) == 3 * 56
    assert left_out(PHASE, tuple(made.hosts), probes(made), made) == []
    assert left_out(PHASE, ("gpu001",), probes(rack()), rack()) == []
