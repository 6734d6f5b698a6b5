"""Two runs that call a host alike: is it the same one, with the same parts?"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measured_rack import rack_topology
from fabric.judge.repair.identity import not_the_same
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.model.topology import Topology

RACK = rack_topology(2)
HOSTS = ("gpu001", "gpu002")


def identity(**serials: str) -> dict[str, HostIdentity]:
    """Two hosts with two parts each; *serials* of those of gpu001 that are others."""
    names = ("mlx5_0", "gpu0")
    return {
        host: HostIdentity(
            host,
            tuple(
                PartIdentity(name, "rnic", serials.get(name, f"SN-{name}") if host == "gpu001" else f"SN2-{name}")
                for name in names
            ),
        )
        for host in HOSTS
    }


def notes(
    before: dict[str, HostIdentity] | None,
    after: dict[str, HostIdentity] | None,
    *,
    files: tuple[str, str] = ("a/rack.yaml", "b/rack.yaml"),
    now: Topology = RACK,
) -> list[str]:
    """What is said of two runs."""
    return list(not_the_same(HOSTS, (RACK, now), (before, after), files=files))


def test_the_same_hosts_are_not_worth_a_word() -> None:
    assert notes(identity(), identity()) == []
    assert notes(None, None) == []


def test_a_part_with_another_serial_number_is_told() -> None:
    (said,) = notes(identity(), identity(gpu0="SN-new"))
    assert said.startswith("replaced between the runs, by serial number: gpu001/gpu0: ")


def test_a_host_without_one_serial_number_in_common_is_another_host() -> None:
    (said,) = notes(identity(), identity(gpu0="X", mlx5_0="Y"))
    assert said == "gpu001 is another host by now: none of its serial numbers is as it was"


def test_another_inventory_file_is_told_and_that_only_names_are_known() -> None:
    said = notes(None, identity(), files=("a/rack.yaml", "a/hall.yaml"))
    assert said[0] == "the second run has another inventory file: a/hall.yaml, not a/rack.yaml"
    assert said[1] == (
        "no serial numbers in both runs (identity: true): only the name says that gpu[001-002] is the same by now"
    )


def test_a_host_that_is_described_otherwise_may_be_another() -> None:
    moved = {**RACK.hosts, "gpu002": replace(RACK.hosts["gpu002"], address="10.9.9.9")}
    said = notes(identity(), identity(), now=replace(RACK, hosts=moved))
    assert said[0].startswith("the second run has another inventory file")
    assert said[1] == "gpu002 is described otherwise in the second run's inventory (address): it may be another host"
    assert len(said) == 2
