"""Ids and names of links: each link has one of each, and they lead back to each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fabric.sim.net.clos import ClosSpec, build

TWO = ClosSpec(8, 2, 4, 3, 2, 0, 0, True, 400.0, 200.0)
THREE = ClosSpec(12, 1, 2, 2, 3, 2, 3, False, 400.0, 800.0)
SPECS = [TWO, THREE, replace(TWO, planes=2), replace(THREE, planes=3)]


@pytest.mark.parametrize("spec", SPECS)
def test_ids_cover_every_link_once(spec):
    """All helpers together give each id exactly once."""
    clos = build(spec)
    found = []
    for plane in range(spec.planes):
        leaf, spine = np.divmod(np.arange(clos.leaves * spec.up), spec.up)
        found += [clos.nic_up(np.arange(clos.nics), plane=plane), clos.nic_dn(np.arange(clos.nics), plane=plane)]
        found += [clos.leaf_up(leaf, spine, plane=plane), clos.leaf_dn(leaf, spine, plane=plane)]
        if clos.cores_up:
            above, core = np.divmod(np.arange(clos.pods * spec.up * clos.cores_up), clos.cores_up)
            pod, spine = np.divmod(above, spec.up)
            found += [clos.spine_up(pod, spine, core, plane=plane), clos.spine_dn(pod, spine, core, plane=plane)]
    assert np.sort(np.concatenate(found)).tolist() == list(range(clos.links))
    assert len(clos.capacity_gbps) == clos.links


@pytest.mark.parametrize("spec", SPECS)
def test_names_lead_back(spec):
    """Every link has its own name, and the name finds the cable."""
    clos = build(spec)
    names = [clos.link_name(link) for link in range(clos.links)]
    assert len(set(names)) == clos.links
    for link, name in enumerate(names):
        up, down = clos.link_ids(name)
        assert link == (down if name.endswith(":down") or clos.link_name(up) != name else up)
        if "->" in name:
            prefix, ends = name.rsplit("/", 1) if "/" in name else ("", name)
            assert clos.link_ids("/".join(filter(None, [prefix, "-".join(reversed(ends.split("->")))]))) == (up, down)


def test_names_are_what_an_operator_says():
    """Hosts count from 1, devices and switches from 0; spines and cores count through the network."""
    clos = build(THREE)
    assert clos.link_name(int(clos.nic_up(2))) == "gpu003/mlx5_0:up"
    assert clos.link_name(int(clos.leaf_dn(2, 1))) == "spine3->leaf2"
    assert clos.link_name(int(clos.spine_up(1, 1, 2))) == "spine3->core5"
    assert clos.link_ids("leaf2-spine3") == (int(clos.leaf_up(2, 1)), int(clos.leaf_dn(2, 1)))
    assert clos.link_ids("spine3->core5") == (int(clos.spine_up(1, 1, 2)), int(clos.spine_dn(1, 1, 2)))


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("leaf2-spine0", "not in its pod"),
        ("spine0-core5", "no cable"),
        ("leaf0-core0", "no cables between"),
        ("leaf99-spine0", "no such leaf"),
        ("gpu013/mlx5_0", "no such host"),
        ("gpu000/mlx5_0", "no such host"),
        ("gpu001/mlx5_1", "no such rail"),
        ("plane1/leaf0-spine0", "no such plane"),
        ("spine0-core99", "no such core"),
        ("spine99-core0", "no such spine"),
        ("leaf0", "names no link"),
    ],
)
def test_a_name_of_nothing_is_refused(ends, said):
    """What is not cabled has no ids."""
    with pytest.raises(ValueError, match=said):
        build(THREE).link_ids(ends)
    with pytest.raises(ValueError, match="no link"):
        build(THREE).link_name(build(THREE).links)


def test_rails_have_leaves_of_their_own():
    """Rail-optimised: the NICs of one rail of a group of hosts share a leaf, in the order of hosts."""
    clos = build(TWO)
    assert clos.leaf_of(clos.nic(np.array([0, 3, 4]), 1)).tolist() == [1, 1, 3]
    assert clos.place(clos.nic(np.array([0, 3, 4]), 1)).tolist() == [4, 7, 12]
    assert build(replace(TWO, rail_optimised=False)).leaf_of(np.array([0, 3, 4])).tolist() == [0, 0, 1]


def test_large_networks_are_full_trees():
    """Radix 64 makes 65,536 NICs of 393,216 directed links on three levels."""
    clos = build(ClosSpec(65536, 1, 32, 32, 3, 32, 32, False, 400.0, 400.0))
    assert (clos.leaves, clos.pods, clos.links) == (2048, 64, 393216)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"levels": 4}, "2 or 3 levels"),
        ({"up": 0}, "up is 0"),
        ({"core_up": 0}, "core_up is 0"),
        ({"uplink_gbps": 0.0}, "uplink_gbps"),
        ({"line_rate_gbps": float("nan")}, "line_rate_gbps"),
    ],
)
def test_what_cannot_be_built_is_refused(change, said):
    """The message names the setting."""
    with pytest.raises(ValueError, match=said):
        build(replace(THREE, **change))
