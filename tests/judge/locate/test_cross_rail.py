"""What a pair of RNICs of one host passes that leaves its leaf: the cables and switches above, too."""

from __future__ import annotations

from dataclasses import replace

from fabric.judge.locate.candidates import SPINES, components_of
from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome
from tests.probes.test_rnic_to_rnic import probes, rack

ABOVE = {"gpu001/mlx5_0:above", "gpu001/mlx5_3:above", "gpu001:above"}


def test_the_uplinks_are_among_the_suspects() -> None:
    """Those of both leaves, the cable that the routes of each RNIC take, the switch of its routes, all spines."""
    topology = rack()
    probe = next(one for one in probes(topology) if one.probe_id.endswith("gpu001/rnic_to_rnic.mlx5_0.mlx5_3"))
    leaves = topology.hosts["gpu001"].leaves
    found = {one.name: one for one in components_of(probe, topology)}
    assert {name for name, one in found.items() if one.kind == "uplinks"} == {
        *ABOVE,
        f"{leaves[0]}:uplinks",
        f"{leaves[3]}:uplinks",
        SPINES,
    }
    assert "localise" in next_step("uplinks", Outcome.FAIL)


def test_below_one_leaf_they_are_not() -> None:
    """Nothing above is passed."""
    topology = rack()
    hosts = {name: replace(host, leaves=("tor0",) * 8) for name, host in topology.hosts.items()}
    below = replace(topology, hosts=hosts)
    assert not [one for probe in probes(below) for one in components_of(probe, below) if one.kind == "uplinks"]
