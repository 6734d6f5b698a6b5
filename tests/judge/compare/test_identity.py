"""Was the part replaced that was named, by serial numbers alone? Are two descriptions of one host the same parts?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fabric.config.inventory import load_inventory
from fabric.judge.repair.identity import INSIDE, Repair, differing, parts_of, repaired
from fabric.model.outcome import Outcome
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.model.topology import Host
from fabric.model.verdict import Suspect
from tests.places import INVENTORY

PARTS = tuple(
    PartIdentity(name, kind, f"SN-{name}", None, firmware, f"id-{name}")
    for name, kind, firmware in (
        ("mlx5_0", "rnic", "28.41"),
        ("mlx5_0:port", "module", "46"),
        ("mlx5_1", "rnic", "28.41"),
        ("gpu0", "gpu", "96"),
    )
)
BEFORE = {"a": HostIdentity("a", PARTS)}
PEERS = {"b": HostIdentity("b", PARTS)}


def suspect(component: str, kind: str = "rnic", *ambiguous: str) -> Suspect:
    return Suspect(component, kind, Outcome.FAIL, 0.9, (), ambiguous, hosts=("a",))


def after(*changed: str, **fields: str | None) -> dict[str, HostIdentity]:
    """The same host with these parts changed, and a peer."""
    new = fields or {"serial": "SN-new"}
    parts = tuple(replace(part, **new) if part.part in changed else part for part in PARTS)  # type: ignore[arg-type]
    return {"a": HostIdentity("a", parts), **PEERS}


def test_the_right_part_the_wrong_part_and_none() -> None:
    named = [suspect("a/mlx5_0")]
    assert repaired(BEFORE, after("mlx5_0"), ["a"], named).what is Repair.RIGHT_PART
    found = repaired(BEFORE, after("mlx5_1"), ["a"], named)
    assert found.what is Repair.WRONG_PART
    assert found.lines[0] == "the wrong part was replaced: a/mlx5_0 is still SN SN-mlx5_0; replaced was a/mlx5_1"
    assert repaired(BEFORE, after(), ["a"], named).what is Repair.NOTHING


def test_what_was_replaced_is_told_with_firmware_and_what_peers_have() -> None:
    found = repaired(BEFORE, after("mlx5_0", serial="B", firmware="28.39"), ["a"], [suspect("a/mlx5_0")])
    assert found.lines[1] == "a/mlx5_0: replaced: SN SN-mlx5_0 -> B, firmware 28.41 -> 28.39, peers have 28.41"


def test_a_firmware_that_was_flashed_is_no_replacement() -> None:
    found = repaired(BEFORE, after("mlx5_0", firmware="28.42"), ["a"], [suspect("a/mlx5_0")])
    assert found.what is Repair.NOTHING
    assert found.lines[1] == "a/mlx5_0: firmware 28.41 -> 28.42, peers have 28.41"


def test_of_a_link_either_end_and_the_cable_may_be_replaced() -> None:
    link = [suspect("a/mlx5_0:port", "link")]
    assert repaired(BEFORE, after("mlx5_0:port"), ["a"], link).what is Repair.RIGHT_PART
    assert repaired(BEFORE, after("mlx5_0"), ["a"], link).what is Repair.RIGHT_PART
    assert repaired(BEFORE, after("mlx5_0:port"), ["a"], [suspect("a/mlx5_0")]).what is Repair.WRONG_PART


def test_of_a_wrong_part_the_serial_numbers_are_each_part_s_own() -> None:
    found = repaired(BEFORE, after("mlx5_1"), ["a"], [suspect("a/mlx5_0:port", "link")])
    assert "a/mlx5_0:port is still SN SN-mlx5_0, SN-mlx5_0:port" in found.lines[0]


def test_what_could_not_be_told_apart_is_as_right() -> None:
    named = [suspect("a/mlx5_0", "rnic", "a/gpu0")]
    assert repaired(BEFORE, after("gpu0"), ["a"], named).what is Repair.RIGHT_PART


def test_a_part_without_serial_number_is_compared_by_its_guid() -> None:
    before = {"a": HostIdentity("a", (PartIdentity("mlx5_0", "rnic", None, unique="g1"),))}
    now = {"a": HostIdentity("a", (PartIdentity("mlx5_0", "rnic", None, unique="g2"),))}
    assert repaired(before, now, ["a"], [suspect("a/mlx5_0")]).what is Repair.RIGHT_PART


def test_a_part_that_says_nothing_of_itself_is_not_said_to_be_another() -> None:
    now = after("mlx5_0", serial=None, unique=None)
    assert repaired(BEFORE, now, ["a"], [suspect("a/mlx5_0")]).what is Repair.NOTHING


def test_nothing_read_then_or_now_is_not_known() -> None:
    for before, now in (
        (None, after()),
        (BEFORE, None),
        ({}, after()),
        (BEFORE, {"a": HostIdentity("a", (), ("no",))}),
    ):
        assert repaired(before, now, ["a"], [suspect("a/mlx5_0")]).what is Repair.UNKNOWN


def test_a_part_that_could_not_be_read_now_is_not_gone() -> None:
    now = {"a": HostIdentity("a", PARTS[1:], ("serial numbers of RNICs: not root",))}
    assert repaired(BEFORE, now, ["a"], [suspect("a/mlx5_1")]).changes == ()


def test_a_part_that_is_gone_is_told() -> None:
    found = repaired(BEFORE, {"a": HostIdentity("a", PARTS[1:])}, ["a"], [suspect("a/mlx5_0")])
    assert "a/mlx5_0: gone: SN SN-mlx5_0" in found.lines


def test_a_suspect_that_has_no_serial_number_leaves_it_open() -> None:
    found = repaired(BEFORE, after("gpu0"), ["a"], [suspect("a/pcie0", "pcie_switch")])
    assert found.what is Repair.UNKNOWN
    assert "no serial number is read of a/pcie0; replaced was a/gpu0" in found.lines[0]


def test_a_path_names_both_its_ends() -> None:
    assert parts_of(suspect("a/mlx5_0->gpu0", "path"), ["a"]) == {"a/mlx5_0", "a/gpu0"}
    assert parts_of(suspect("a/mlx5_0->numa1", "path"), ["a"]) == {"a/mlx5_0"}
    assert parts_of(suspect("b/mlx5_0"), ["a"]) == frozenset()


def test_only_what_was_replaced_is_said_to_be_and_not_what_else_was_named() -> None:
    """Two suspects of one link; its cable alone is another."""
    named = [suspect("a/mlx5_0:port", "link"), suspect("a/mlx5_0", "rnic", "a/mlx5_0:port")]
    found = repaired(BEFORE, after("mlx5_0:port"), ["a"], named)
    assert found.lines[0] == "the named part was replaced: a/mlx5_0:port"


def test_where_nobody_knew_which_gpu_was_missing_any_of_them_is_the_right_one() -> None:
    """The driver numbers the others anew: after the repair there is one number more."""
    named = [suspect("a/gpus", "gpu")]
    now = {"a": replace(BEFORE["a"], parts=(*PARTS, PartIdentity("gpu1", "gpu", "SN-new"))), **PEERS}
    assert repaired(BEFORE, now, ["a"], named).what is Repair.RIGHT_PART
    assert repaired(BEFORE, after("mlx5_0"), ["a"], named).what is Repair.WRONG_PART


def test_where_parts_could_not_be_read_only_the_others_are_said_to_be_as_they_were() -> None:
    lacking = {"a": replace(BEFORE["a"], parts=PARTS[:3], unread=("nvidia-smi lists 0 GPUs, the inventory has 1",))}
    found = repaired(lacking, after(), ["a"], [suspect("a/mlx5_0")])
    assert found.lines[0] == "nothing was replaced: every serial number that was read is as it was"


HOST = load_inventory(INVENTORY / "demo-rack-healthy.yaml").topology.hosts["gpu003"]


def with_platform(**fields: Any) -> Host:
    """The host with another description of its inside."""
    return replace(HOST, platform=replace(HOST.platform, **fields))


def test_the_same_parts_in_another_place_are_the_same_hardware() -> None:
    elsewhere = replace(HOST, address="10.9.9.9", platform=replace(HOST.platform, baseline="other"))
    found = differing(HOST, elsewhere)
    assert found == {"address", "baseline"}
    assert INSIDE.isdisjoint(found)
    assert differing(HOST, HOST) == set()


def test_slower_missing_and_other_parts_are_other_hardware() -> None:
    slower = tuple(replace(rnic, line_rate_gbps=100.0) for rnic in HOST.platform.rnics)
    for rnics in (slower, HOST.platform.rnics[1:]):
        assert differing(HOST, with_platform(rnics=rnics)) == {"rnics"}
    assert differing(HOST, with_platform(link_layer="other")) == {"link_layer"}
