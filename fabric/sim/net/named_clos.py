"""A simulated network whose hosts, switches and links are called as in the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fabric.sim.net.clos import Clos

Cable = tuple[int, int]
"""The ids of a cable's two directed links: from its first end to its second, and back."""

_Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NamedClos:
    """
    A Clos and what its parts are called.

    *hosts*: by host id, None where a unit is not full. *devices*: each host's RNIC by rail. *leaves*: by leaf id.
    *block*: for each leaf the block of spines above it (those of some rails, or of a pod). *spines*: by block, one name
    for each uplink of a leaf; parallel cables repeat the name. *cores*: by spine position, one name for each uplink.
    """

    clos: Clos
    hosts: tuple[str | None, ...]
    devices: Mapping[str, tuple[str, ...]]
    leaves: tuple[str, ...]
    block: tuple[int, ...]
    spines: tuple[tuple[str, ...], ...]
    cores: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def host_ids(self) -> dict[str, int]:
        """Host ids by name."""
        return {name: number for number, name in enumerate(self.hosts) if name is not None}

    @cached_property
    def leaf_ids(self) -> dict[str, int]:
        """Leaf ids by name."""
        return {name: number for number, name in enumerate(self.leaves)}

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Every switch of the network, once."""
        names = (*self.leaves, *(s for block in self.spines for s in block), *(c for row in self.cores for c in row))
        return tuple(dict.fromkeys(names))

    def access(self, host: str, device: str) -> Cable:
        """The cable of one RNIC; KeyError or ValueError when there is none."""
        nic = self.clos.nic(self.host_ids[host], self.devices[host].index(device))
        return int(self.clos.nic_up(nic)), int(self.clos.nic_dn(nic))

    def cables(self, one: str, other: str) -> tuple[Cable, ...]:
        """The parallel cables between two switches, as seen from *one*; none when they are not joined."""
        found = tuple(self._cables_up(one, other))
        return found or tuple((down, up) for up, down in self._cables_up(other, one))

    def _cables_up(self, lower: str, upper: str) -> Iterator[Cable]:
        clos = self.clos
        leaf = self.leaf_ids.get(lower)
        if leaf is not None:
            for position, name in enumerate(self.spines[self.block[leaf]]):
                if name == upper:
                    yield _cable(clos.leaf_up, clos.leaf_dn, leaf, position)
            return
        for pod, spines in enumerate(self.spines if self.cores else ()):
            for position, name in enumerate(spines):
                for number, core in enumerate(self.cores[position]) if name == lower else ():
                    if core == upper:
                        yield _cable(clos.spine_up, clos.spine_dn, pod, position, number)

    @cached_property
    def trunks(self) -> npt.NDArray[np.int64]:
        """Every cable between switches: one row of (up id, down id) each."""
        rows = [np.stack([self._tier_ids[up], self._tier_ids[down]], axis=1) for up, down in self._trunk_tiers]
        return np.concatenate(rows)

    @property
    def _trunk_tiers(self) -> tuple[tuple[str, str], ...]:
        leaf = ("leaf_up", "leaf_dn")
        return (leaf, ("spine_up", "spine_dn")) if self.cores else (leaf,)

    def link_name(self, link: int) -> str:
        """What a directed link is called: ``gpu003/mlx5_2->su0-leaf2``, ``su0-leaf2->spine03``."""
        for tier, ids in self._tier_ids.items():
            number = link - int(ids[0])  # a tier's ids follow one another: fabric.sim.net.clos says so
            if 0 <= number < len(ids):
                lower, upper = self._ends(tier.partition("_")[0], number)
                return f"{lower}->{upper}" if tier.endswith("_up") else f"{upper}->{lower}"
        raise ValueError(f"no link {link} in this network")

    def trunk_name(self, resource: int) -> str:
        """What adaptive routing uses as one: ``su0-leaf2->spines``, ``cores->pod 1``; an RNIC's links as ever."""
        access, leaves, pods = 2 * self.clos.nics, len(self.leaves), len(self.spines)
        if resource < access:
            return self.link_name(resource)
        number = resource - access
        if number < 2 * leaves:
            down, leaf = divmod(number, leaves)
            return f"spines->{self.leaves[leaf]}" if down else f"{self.leaves[leaf]}->spines"
        down, pod = divmod(number - 2 * leaves, pods)
        return f"cores->pod {pod}" if down else f"pod {pod}->cores"

    def nic_name(self, nic: int) -> str:
        """``gpu003/mlx5_2``; a place without a host is said by its number."""
        host, rail = divmod(nic, self.clos.spec.rails)
        name = self.hosts[host]
        return f"host {host} (none)/rail {rail}" if name is None else f"{name}/{self.devices[name][rail]}"

    @cached_property
    def _tier_ids(self) -> dict[str, _Ids]:
        """The ids of each tier's links, in the order that ``_ends`` counts in."""
        clos, spec = self.clos, self.clos.spec
        nics = np.arange(clos.nics)
        leaf, spine = _grid(clos.leaves, spec.up)
        ids = {
            "nic_up": clos.nic_up(nics),
            "nic_dn": clos.nic_dn(nics),
            "leaf_up": clos.leaf_up(leaf, spine),
            "leaf_dn": clos.leaf_dn(leaf, spine),
        }
        if self.cores:
            flat, core = _grid(len(self.spines) * spec.up, spec.core_up)
            ids["spine_up"] = clos.spine_up(flat // spec.up, flat % spec.up, core)
            ids["spine_dn"] = clos.spine_dn(flat // spec.up, flat % spec.up, core)
        return {tier: np.asarray(of_tier, dtype=np.int64) for tier, of_tier in ids.items()}

    def _ends(self, tier: str, number: int) -> tuple[str, str]:
        """The lower and the upper end of the *number*-th cable of a tier."""
        spec = self.clos.spec
        if tier == "nic":
            return self.nic_name(number), self.leaves[int(self.clos.leaf_of(np.array([number]))[0])]
        if tier == "leaf":
            leaf, position = divmod(number, spec.up)
            return self.leaves[leaf], _numbered(self.spines[self.block[leaf]], position)
        flat, core = divmod(number, spec.core_up)
        pod, position = divmod(flat, spec.up)
        return self.spines[pod][position], _numbered(self.cores[position], core)


def _numbered(names: tuple[str, ...], position: int) -> str:
    """The name at a position; with ``#2`` when it is one of several parallel cables."""
    name = names[position]
    return name if names.count(name) == 1 else f"{name}#{names[:position].count(name)}"


def _grid(rows: int, columns: int) -> tuple[_Ids, _Ids]:
    """Row and column of every cell, row by row."""
    return np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)


def _cable(up: Callable[..., _Ids], down: Callable[..., _Ids], *place: int) -> Cable:
    return int(up(*place)), int(down(*place))
