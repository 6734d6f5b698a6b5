"""What all hosts fail alike inside is one suspect, all of them; who stands out is still named."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import Factor, judged, measured, probes_of, rack_topology, slow_rnic
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import Limit, Suspect
from tests.builders import suspects

RACK = rack_topology(4, parts=4)
LIMITS = (
    Limit("loopback", 380.0, "a limit", min_size_bytes=1, link_class="pix"),
    Limit("loopback", 390.0, "a limit", min_size_bytes=1, link_class="mem_local"),
    Limit("loopback", 200.0, "a limit", min_size_bytes=1),
    Limit("rnic_to_rnic", 384.0, "a limit", min_size_bytes=1),
)


def named(rack: Topology, factor: Factor) -> tuple[Suspect, ...]:
    """Suspects of a rack with little noise."""
    probes = probes_of(rack)
    verdicts = judged(measured(probes, cv=0.003, seed=1, factor=factor), rack, limits=LIMITS)
    return suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)


@pytest.mark.slow
def test_hosts_that_are_all_slow_are_one_group_and_no_leaf_is_blamed() -> None:
    """Every RNIC pair crosses a leaf, and every leaf is well."""
    found = named(RACK, lambda _: 0.9)
    assert [(one.component, one.kind) for one in found] == [("gpu[001-004]", "group")]
    assert found[0].hosts == tuple(RACK.hosts)


@pytest.mark.slow
def test_an_rnic_that_is_slower_than_all_the_other_slow_ones_is_named_as_well() -> None:
    """It stands out of what all share."""
    worse = slow_rnic("gpu002/mlx5_3", 0.5)
    found = named(RACK, lambda probe: min(0.9, worse(probe)))
    assert {one.component for one in found} == {"gpu[001-004]", "gpu002/mlx5_3"}


@pytest.mark.slow
def test_fewer_than_three_slow_hosts_are_named_one_by_one() -> None:
    """With two nobody can say what is normal."""
    found = named(rack_topology(2, parts=4), lambda _: 0.9)
    assert not [one for one in found if one.kind == "group"]


def test_one_slow_leaf_of_many_is_the_leaf() -> None:
    """Of the RNIC pairs only those over it are slow."""

    def over_leaf3(probe: Probe) -> float:
        ends = (probe.params["rnic"], probe.params.get("peer_rnic"))
        return 0.7 if _pair(probe) and "mlx5_3" in ends else 1.0

    assert [one.component for one in named(RACK, over_leaf3)] == ["leaf3"]


def test_pairs_that_all_cross_one_slow_leaf_blame_the_leaf() -> None:
    """A rack with a single leaf switch: it explains all of them."""
    rack = rack_topology(4, parts=4)
    for host in rack.hosts.values():
        object.__setattr__(host, "leaves", ("leaf0",) * 4)
    found = named(rack, lambda probe: 0.7 if _pair(probe) else 1.0)
    assert [one.component for one in found] == ["leaf0"]


def _pair(probe: Probe) -> bool:
    return probe.kind == "rnic_to_rnic"
