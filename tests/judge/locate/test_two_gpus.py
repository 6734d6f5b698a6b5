"""Two slow parts of one host, pairs that leave its leaf, and what is advised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fabric.judge.locate.candidates import SPINES, components_of
from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from tests.builders import suspects
from tests.probes.test_pairwise import probes, rack


def slow_gpus(rack: Topology, levels: Mapping[int, float]) -> tuple[Suspect, ...]:
    """Suspects when these GPUs of gpu001 hold every all-to-all that they take part in to their level (Gb/s)."""
    probes = expand_phase(Phase("p", (AllToAllSpec(),)), rack, tuple(rack.hosts))
    verdicts = {}
    for probe in probes:
        gpus = probe.params["gpus"] if probe.hosts == ("gpu001",) else ()
        assert isinstance(gpus, tuple)
        value = min([levels[gpu] for gpu in gpus if gpu in levels], default=2700.0)
        outcome = Outcome.FAIL if value < 2432 else Outcome.PASS
        verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", value, 2432)
    return suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)


@pytest.mark.parametrize("pair", [(a, b) for a in range(8) for b in range(8) if a < b])
def test_two_gpus_at_different_levels_are_both_named(rack: Topology, pair: tuple[int, int]) -> None:
    """Two slow NVLinks, one slower than the other: one of them or their host is named, and no healthy GPU alone."""
    found = slow_gpus(rack, {pair[0]: 1300.0, pair[1]: 1900.0})
    allowed = {
        "gpu001",
        "gpu001/nvlink",
        *(f"gpu001/gpu{gpu}" for gpu in pair),
    }  # nothing here tells a GPU from its NVLink
    assert found
    assert all(allowed & {one.component, *one.ambiguous_with} for one in found)


def test_two_gpus_at_one_level_stay_ambiguous(rack: Topology) -> None:
    """1 and 2 make the same halves slow as 0 and 3: the verdict names all four and is sure of none."""
    found = slow_gpus(rack, {1: 1300.0, 2: 1300.0})
    named = {name.removesuffix(":nvlink") for suspect in found for name in (suspect.component, *suspect.ambiguous_with)}
    assert named <= {"gpu001", "gpu001/nvlink", *(f"gpu001/gpu{gpu}" for gpu in range(4))}


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


@pytest.mark.parametrize("kind", ["gpu", "gpu_pcie"])
def test_a_gpu_that_could_not_be_measured_may_be_missing(kind: str) -> None:
    """``No such device ID (5) exists`` is answered by nvidia-smi -L."""
    assert "nvidia-smi -L" in next_step(kind, Outcome.ERROR)


def test_nvlink_that_could_not_be_measured_asks_for_the_fabric_manager() -> None:
    """An unhandled CUDA error of a collective."""
    assert "fabric manager" in next_step("nvlink", Outcome.ERROR)


def test_an_error_never_asks_to_replace_anything() -> None:
    """We are to blame until it was measured."""
    for kind in ("gpu", "gpu_pcie", "nvlink", "host", "rnic", "path"):
        assert "replace" not in next_step(kind, Outcome.ERROR)
        assert next_step(kind, Outcome.ERROR).startswith("we could not measure it")


def test_a_leaf_and_all_cables_above_it_are_rivals_where_all_crosses_both() -> None:
    """Nothing passed the leaf alone: both are named, and neither is all of what is sure."""
    topology = rack()
    leaf = topology.hosts["gpu001"].leaves[0]
    verdicts = {}
    for probe in probes(topology):
        leaves = topology.hosts[probe.hosts[0]].leaves
        low = leaf in leaves and "mlx5_0" in (probe.params["rnic"], probe.params["peer_rnic"])
        outcome = Outcome.FAIL if low else Outcome.PASS
        verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", 39.8 if low else 397.0, 364.0)
    (found,) = suspects(probes(topology), verdicts, topology=topology, outcome=Outcome.FAIL)
    assert {found.component, *found.ambiguous_with} == {leaf, f"{leaf}:uplinks"}
    assert found.confidence < 0.95
