"""Links are drawn the same on every machine, without repetition, and as far apart as there is room."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import dgx_platform
from fabric import config
from fabric.changes.cable_fault import DrawnLinks
from fabric.config.links import Links
from fabric.config.problems import Problems
from fabric.model.fields.entry import from_file
from fabric.model.topology import Host, Switch, Topology, Uplinks
from tests.places import INVENTORY

POD = config.load_inventory(INVENTORY / "pod-64.yaml").topology


def drawn(topology: Topology, hosts: tuple[str, ...] | None = None, **wanted: object) -> tuple[str, ...]:
    """What is drawn; there must be no problem."""
    problems = Problems("scenario.yaml")
    entry = from_file(DrawnLinks, wanted)
    names = Links(topology, tuple(topology.hosts) if hosts is None else hosts).drawn(entry, ("links",), problems)
    assert problems.all() == ()
    return names


def ends(names: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
    """How often each lower and each upper end is there."""
    pairs = [name.split("#")[0].split("--") for name in names]
    return Counter(lower for lower, _ in pairs), Counter(upper for _, upper in pairs)


def test_a_draw_is_written_down_here() -> None:
    """A changed draw would change what earlier runs are compared with."""
    assert drawn(POD, tier="spine", count="4", seed="7") == (
        "su2-leaf6--spine04",
        "su3-leaf7--spine11",
        "su2-leaf7--spine07",
        "su0-leaf5--spine06",
    )
    assert drawn(POD, tier="access", count="2") == ("gpu048/mlx5_0", "gpu044/mlx5_1")


@given(count=st.integers(1, 256), seed=st.integers(0, 1000))
def test_links_are_as_far_apart_as_there_is_room(count: int, seed: int) -> None:
    """No link twice; leaves are used evenly, and spines nearly so."""
    names = drawn(POD, tier="spine", count=str(count), seed=str(seed))
    lower, upper = ends(names)
    assert len(set(names)) == count
    assert max(lower.values()) == -(-count // 32)
    assert max(upper.values()) <= -(-count // 16) + 2


def test_only_links_of_the_hosts_of_the_run_are_drawn() -> None:
    """Their RNICs, and the uplinks of their leaves."""
    hosts = ("gpu001", "gpu002")
    assert {name.split("/")[0] for name in drawn(POD, hosts, tier="access", count="16")} == set(hosts)
    lower, _ = ends(drawn(POD, hosts, tier="spine", count="128"))
    assert set(lower) == {f"su0-leaf{rail}" for rail in range(8)}


@pytest.mark.parametrize(
    ("tier", "of", "part"),
    [("spine", "spine03", "--spine03"), ("spine", "su1-leaf[0-7]", "su1-leaf"), ("access", "su0-leaf2", "/mlx5_2")],
)
def test_of_keeps_links_of_some_ends(tier: str, of: str, part: str) -> None:
    """A switch at either end, or a host."""
    names = drawn(POD, tier=tier, of=[of], count="10")
    assert all(part in name for name in names)


def three_levels() -> Topology:
    """Two pods of one leaf and one spine, two cores; the cables to the cores are written from above."""
    platform = dgx_platform()
    hosts = {name: Host(name, platform, name, None, (f"leaf{pod}",) * 8) for pod, name in enumerate(("a", "b"))}
    tiers = {"leaf0": "leaf", "leaf1": "leaf", "spine0": "spine", "spine1": "spine", "core0": "core", "core1": "core"}
    uplinks = (
        Uplinks(("leaf0",), ("spine0",), 2, 400.0),
        Uplinks(("leaf1",), ("spine1",), 2, 400.0),
        Uplinks(("core0", "core1"), ("spine0", "spine1"), 1, 400.0),
    )
    return Topology(hosts, {name: Switch(name, tier) for name, tier in tiers.items()}, uplinks)


def test_tiers_go_by_the_upper_end() -> None:
    """However the inventory writes the cable, the lower switch stands first."""
    topology = three_levels()
    assert set(drawn(topology, tier="core", count="4")) == {f"spine{s}--core{c}" for s in (0, 1) for c in (0, 1)}
    assert set(drawn(topology, tier="spine", count="4")) == {
        *("leaf0--spine0", "leaf0--spine0#1", "leaf1--spine1", "leaf1--spine1#1")
    }
    assert set(drawn(topology, ("a",), tier="core", count="2")) == {"spine0--core0", "spine0--core1"}


def test_a_name_is_one_however_it_is_written() -> None:
    """Both orders, and the first of parallel cables with and without its number."""
    links, problems = Links(three_levels(), ("a", "b")), Problems("scenario.yaml")
    texts = ["leaf0--spine0", "spine0--leaf0", "leaf0--spine0#0", "core1--spine0", "leaf0--spine0#1", "a/mlx5_3"]
    names = ["leaf0--spine0", "leaf0--spine0", "leaf0--spine0", "spine0--core1", "leaf0--spine0#1", "a/mlx5_3"]
    assert [links.named(text, (), problems) for text in texts] == names
    assert problems.all() == ()


def test_switches_may_have_dashes_in_their_names() -> None:
    """Every place where a name could end is tried."""
    switches = {"a--b": Switch("a--b", "leaf"), "c": Switch("c", "spine")}
    topology = Topology({}, switches, (Uplinks(("a--b",), ("c",), 1, 400.0),))
    assert Links(topology, ()).named("c--a--b", (), Problems("x")) == "a--b--c"
