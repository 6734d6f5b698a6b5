"""Names of parts; what the switches join, and what a pair of hosts shares above its leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import dgx_platform, rack_topology
from fabric.model.part import Part
from fabric.model.topology import Host, Switch, Topology, Uplinks


def pods(spines: int = 2, cores: int = 1) -> Topology:
    """Two pods of two units of four hosts, two rails; each spine reaches so many cores of its own."""
    platform = dgx_platform(parts=2)
    hosts = {}
    for number in range(16):
        leaves = tuple(f"u{number // 4}-leaf{rail}" for rail in range(2))
        hosts[f"h{number:02d}"] = Host(f"h{number:02d}", platform, "x", None, leaves)
    up = [
        Uplinks(
            tuple(f"u{unit}-leaf{rail}" for unit in (2 * pod, 2 * pod + 1) for rail in range(2)),
            tuple(f"p{pod}-spine{spine}" for spine in range(spines)),
            1,
            400.0,
        )
        for pod in range(2)
    ]
    for spine in range(spines):
        above = tuple(f"core{spine}-{core}" for core in range(cores))
        up.append(Uplinks(tuple(f"p{pod}-spine{spine}" for pod in range(2)), above, 1, 400.0))
    names = {name: None for one in up for name in (*one.lower, *one.upper)}
    tiers = {"u": "leaf", "p": "spine", "c": "core"}
    return Topology(hosts, {name: Switch(name, tiers[name[0]]) for name in names}, tuple(up))


def test_leaves_are_joined_over_spines_and_cores() -> None:
    """All leaves of pods with common cores are one part; a pod without cores is one by itself."""
    made = pods()
    assert len(set(made.parts.values())) == 1
    alone = replace(made, uplinks=made.uplinks[:2])
    assert [len({alone.parts[f"u{unit}-leaf0"] for unit in units}) for units in ((0, 1), (0, 2))] == [1, 2]


def test_leaves_without_spines_are_apart_only_where_no_spine_is_listed() -> None:
    """Rails by themselves need a list of switches that has nothing above leaves; else it is just not described."""
    listed = rack_topology(2)
    bare = replace(listed, switches={name: one for name, one in listed.switches.items() if one.tier == "leaf"})
    assert (listed.apart, len(set(listed.parts.values()))) == (False, 1)
    assert (bare.apart, len(set(bare.parts.values()))) == (True, 8)
    hosts = dict(bare.hosts)
    hosts["gpu002"] = replace(hosts["gpu002"], leaves=tuple(f"other{rail}" for rail in range(8)))
    assert not replace(bare, hosts=hosts).apart


def test_pairs_of_one_pod_share_no_cable_to_the_cores() -> None:
    """Up from the sender's pod and down to the receiver's; nothing below a common spine."""
    made = pods()
    assert made.core_cables("u0-leaf0", "u1-leaf0", "h04/mlx5_0") == ()
    assert made.core_cables("u0-leaf0", "u2-leaf0", "h08/mlx5_0") == ("p0-spine0:up:0.0", "p1-spine0:down:0.0")
    assert made.core_cables("u0-leaf0", "u2-leaf0", "h09/mlx5_0") == ("p0-spine0:up:1.0", "p1-spine0:down:1.0")


def test_cables_to_cores_are_those_of_the_routes() -> None:
    """Two receivers share one exactly where OpenSM's ftree sends both over the same link."""
    import numpy as np

    from fabric.sim.net.named_clos import net_from_topology
    from fabric.sim.net.route import routes

    made = pods(spines=3, cores=2)
    net = net_from_topology(made)
    ends = [(host, device) for host, device in net.ends if made.hosts[host].leaves[0] >= "u2"]
    src = np.full(len(ends), net.nic("h00", "mlx5_0"))
    dst = np.array([net.nic(host, device) for host, device in ends])
    links = routes(net.clos, src, dst, engine="ftree").links[:, 2:4].tolist()
    leaf = {device: rail for rail, device in net.devices["h00"].items()}
    claims = [made.core_cables("u0-leaf0", made.hosts[h].leaves[leaf[d]], f"{h}/{d}") for h, d in ends]
    assert (
        len(set(claims))
        == len({tuple(link) for link in links})
        == len(set(zip(claims, map(tuple, links), strict=True)))
    )


NAMES = {
    "gpu001": Part("gpu001"),
    "gpu001:network": Part("gpu001", "", "network"),
    "gpu001/mlx5_0": Part("gpu001", "mlx5_0"),
    "gpu001/mlx5_0:port": Part("gpu001", "mlx5_0", "port"),
    "gpu001/mlx5_0->numa1-gpus": Part("gpu001", "mlx5_0->numa1-gpus"),
    "leaf3--spine2#1": Part("leaf3--spine2#1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_and_written_back(name: str) -> None:
    """Host, item and aspect of every form; the name of the part is the name that was read."""
    assert (Part.of(name), str(Part.of(name))) == (NAMES[name], name)


WORD = st.text("ab1->+#.", min_size=1, max_size=8)


@given(WORD, st.just("") | WORD, st.just("") | WORD)
def test_every_part_is_read_as_it_was_written(host: str, item: str, aspect: str) -> None:
    """Whatever its host, item and aspect are, as long as they hold neither slash nor colon."""
    part = Part(host, item, aspect)
    assert Part.of(str(part)) == part


def test_a_part_has_a_name_within_its_host() -> None:
    """A host has none, whatever its aspect."""
    names = ("gpu001/mlx5_0:port", "gpu001/gpu3", "gpu001:network", "gpu001")
    assert [Part.of(name).inside for name in names] == ["mlx5_0:port", "gpu3", "", ""]


def test_a_path_has_a_device_and_an_end() -> None:
    """Both are items of the same host."""
    path = Part.of("gpu001/mlx5_0->numa1")
    assert (path.device, path.end, Part.of("gpu001/mlx5_0").end) == ("mlx5_0", "numa1", "")


def test_one_direction_is_a_part_of_both() -> None:
    """Other aspects stay."""
    assert str(Part.of("gpu001/mlx5_0:tx").both_ways) == "gpu001/mlx5_0"
    assert str(Part.of("gpu001/mlx5_0:port").both_ways) == "gpu001/mlx5_0:port"


def test_a_pair_has_two_members() -> None:
    """Also a pair of RNICs."""
    assert [one.host for one in Part.of("gpu001/mlx5_0+gpu002/mlx5_0").members] == ["gpu001", "gpu002"]


def test_a_link_has_two_ends_whichever_way() -> None:
    """Without the number of the cable; a path inside a host is no link."""
    assert Part.of("leaf3--spine2#1").link_ends == Part.of("leaf3->spine2").link_ends == ("leaf3", "spine2")
    assert Part.of("gpu001/mlx5_0->numa1").link_ends is None
