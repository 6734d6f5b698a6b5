"""The names of links: ``gpu003/mlx5_2:up``, ``leaf12->spine3``, ``core7->spine3``; ``plane1/leaf12->spine3``.

Hosts count from 1, as fleets name them; devices and switches from 0. Spines and cores count through a whole plane.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.sim.net.clos import Clos

_PLANE = r"(?:plane(?P<plane>\d+)/)?"
_NIC = re.compile(_PLANE + r"gpu(?P<host>\d+)/mlx5_(?P<rail>\d+)(?::(?:up|down))?")
_TRUNK = re.compile(_PLANE + r"(?P<a>leaf|spine|core)(?P<m>\d+)(?:->|-|--)(?P<b>leaf|spine|core)(?P<n>\d+)")


def name(clos: Clos, link: int) -> str:
    """What an operator would call a directed link."""
    if not 0 <= link < clos.links:
        raise ValueError(f"there is no link {link}; the network has {clos.links}")
    plane, at = divmod(link, clos.plane_links)
    prefix = f"plane{plane}/" if clos.spec.planes > 1 else ""
    if at < 2 * clos.nics:
        direction, nic = divmod(at, clos.nics)
        host, rail = divmod(nic, clos.spec.rails)
        return f"{prefix}gpu{host + 1:03d}/mlx5_{rail}:{('up', 'down')[direction]}"
    lower, upper, down = _trunk_ends(clos, at - 2 * clos.nics)
    return f"{prefix}{upper}->{lower}" if down else f"{prefix}{lower}->{upper}"


def _trunk_ends(clos: Clos, at: int) -> tuple[str, str, bool]:
    per_direction = clos.leaves * clos.spec.up
    if at < 2 * per_direction:
        down, at = divmod(at, per_direction)
        leaf, spine = divmod(at, clos.spec.up)
        return f"leaf{leaf}", f"spine{leaf // clos.leaves_per_pod * clos.spec.up + spine}", bool(down)
    down, at = divmod(at - 2 * per_direction, clos.pods * clos.spec.up * clos.cores_up)
    spine, core = divmod(at, clos.cores_up)
    return f"spine{spine}", f"core{spine % clos.spec.up * clos.cores_up + core}", bool(down)


def ids(clos: Clos, ends: str) -> tuple[int, int]:
    """Both directions, up and down, of the cable between two ends; either order, a direction is ignored."""
    if nic := _NIC.fullmatch(ends):
        host, rail = int(nic["host"]) - 1, int(nic["rail"])
        _within(ends, host, clos.spec.hosts, "host")
        _within(ends, rail, clos.spec.rails, "rail")
        plane, at = _plane(clos, ends, nic["plane"]), host * clos.spec.rails + rail
        return int(clos.nic_up(at, plane=plane)), int(clos.nic_dn(at, plane=plane))
    if not (trunk := _TRUNK.fullmatch(ends)):
        raise ValueError(f"{ends!r} names no link; write leaf12-spine3, spine3-core7 or gpu003/mlx5_2")
    numbers = {trunk["a"]: int(trunk["m"]), trunk["b"]: int(trunk["n"])}
    plane = _plane(clos, ends, trunk["plane"])
    if numbers.keys() == {"leaf", "spine"}:
        return _leaf_spine(clos, ends, numbers, plane)
    if numbers.keys() == {"spine", "core"}:
        return _spine_core(clos, ends, numbers, plane)
    raise ValueError(f"{ends!r}: there are no cables between a {trunk['a']} and a {trunk['b']}")


def _leaf_spine(clos: Clos, ends: str, numbers: dict[str, int], plane: int) -> tuple[int, int]:
    leaf = numbers["leaf"]
    pod, spine = divmod(numbers["spine"], clos.spec.up)
    _within(ends, leaf, clos.leaves, "leaf")
    if pod != leaf // clos.leaves_per_pod:
        raise ValueError(f"{ends!r}: leaf{leaf} has no cable to spine{numbers['spine']}, which is not in its pod")
    return int(clos.leaf_up(leaf, spine, plane=plane)), int(clos.leaf_dn(leaf, spine, plane=plane))


def _spine_core(clos: Clos, ends: str, numbers: dict[str, int], plane: int) -> tuple[int, int]:
    _within(ends, numbers["spine"], clos.pods * clos.spec.up, "spine")
    _within(ends, numbers["core"], clos.spec.up * clos.cores_up, "core")
    pod, spine = divmod(numbers["spine"], clos.spec.up)
    if numbers["core"] // clos.cores_up != spine:
        raise ValueError(f"{ends!r}: spine{numbers['spine']} has no cable to core{numbers['core']}")
    core = numbers["core"] % clos.cores_up
    return int(clos.spine_up(pod, spine, core, plane=plane)), int(clos.spine_dn(pod, spine, core, plane=plane))


def _within(ends: str, number: int, count: int, what: str) -> None:
    if not 0 <= number < count:
        raise ValueError(f"{ends!r}: there is no such {what}; the network has {count}")


def _plane(clos: Clos, ends: str, plane: str | None) -> int:
    _within(ends, int(plane or 0), clos.spec.planes, "plane")
    return int(plane or 0)
