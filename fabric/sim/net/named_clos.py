"""A simulated network whose hosts, switches and links are called as in the inventory that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.sim.net.clos import Clos, ClosSpec, build

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


@dataclass(frozen=True, slots=True)
class _Above:
    """Where a switch's uplinks go: *names* each once, *count* parallel cables to each, all of one rate."""

    names: tuple[str, ...]
    count: int
    rate_gbps: float

    @property
    def cables(self) -> tuple[str, ...]:
        """One name for each cable."""
        return self.names * self.count


@dataclass(frozen=True, slots=True)
class _Units:
    """Hosts under the same leaves, in order; *width* leaves each: one for every rail, or one for all."""

    hosts: tuple[tuple[str, ...], ...]
    leaves: tuple[tuple[str, ...], ...]
    width: int


@dataclass(frozen=True, slots=True)
class _Spines:
    """Blocks of spines, the block above each leaf, and what is above each spine position."""

    blocks: tuple[tuple[str, ...], ...]
    block_of_leaf: tuple[int, ...]
    cores: tuple[tuple[str, ...], ...] = ()


def net_from_topology(topology: Topology) -> NamedClos:
    """
    The network of a topology.

    Two levels: every leaf joins the same spines, or each rail has spines of its own (a plane). Three levels: every leaf
    of a pod joins the pod's spines. Units that are not full are filled with places that stay silent. ValueError says
    what is not regular.
    """
    rails, line_rate_gbps = _rails(topology)
    units = _units(topology, rails)
    above = _above(topology)
    leaf_above = _alike("leaf", (leaf for unit in units.leaves for leaf in unit), above)
    spine_names = list(dict.fromkeys(name for one in leaf_above.values() for name in one.names))
    levels = 3 if any(name in above for name in spine_names) else 2
    if levels == 3:
        units, spines = _pods(units, leaf_above, above)
    else:
        spines = _planes(units, leaf_above)
    full = max(len(hosts) for hosts in units.hosts)
    spec = ClosSpec(
        hosts=full * len(units.hosts),
        rails=rails,
        down=full if units.width == rails else full * rails,
        up=len(spines.blocks[0]),
        levels=levels,
        leaves_per_pod=len(spines.block_of_leaf) // len(spines.blocks) if levels == 3 else 0,
        core_up=len(spines.cores[0]) if levels == 3 else 0,
        rail_optimised=units.width == rails,
        line_rate_gbps=line_rate_gbps,
        uplink_gbps=next(iter(leaf_above.values())).rate_gbps,
    )
    return NamedClos(
        clos=build(spec),
        hosts=tuple(name for hosts in units.hosts for name in (*hosts, *[None] * (full - len(hosts)))),
        devices={
            host.name: tuple(rnic.device for rnic in sorted(host.platform.rnics, key=lambda rnic: rnic.rail))
            for host in topology.hosts.values()
        },
        leaves=tuple(leaf for unit in units.leaves for leaf in unit),
        block=spines.block_of_leaf,
        spines=spines.blocks,
        cores=spines.cores,
    )


def _rails(topology: Topology) -> tuple[int, float]:
    """How many rails every host has, and the line rate of every RNIC."""
    platforms = {host.platform.name: host.platform for host in topology.hosts.values()}
    shapes = {name: tuple(sorted(rnic.rail for rnic in platform.rnics)) for name, platform in platforms.items()}
    for name, shape in shapes.items():
        if shape != tuple(range(len(shape))):
            raise ValueError(f"platform {name}: expected one RNIC on each rail from 0, got rails {_listed(shape)}")
    if len({len(shape) for shape in shapes.values()}) > 1:
        counts = ", ".join(f"{name} {len(shape)}" for name, shape in shapes.items())
        raise ValueError(f"hosts have different numbers of RNICs: {counts}")
    rates = sorted({rnic.line_rate_gbps for platform in platforms.values() for rnic in platform.rnics})
    if len(rates) != 1:
        raise ValueError(f"RNICs have different line rates: {_listed(rates)} Gb/s")
    return len(next(iter(shapes.values()))), rates[0]


def _units(topology: Topology, rails: int) -> _Units:
    """Hosts by the leaves they share; a leaf belongs to one unit only."""
    bare = [host.name for host in topology.hosts.values() if len(host.leaves) != rails]
    if bare:
        raise ValueError(f"{fold(bare[:16])} without a leaf for each RNIC: give 'leaves' under hosts:")
    hosts, leaves = [], []
    for group in topology.tor_groups:
        hosts.append(group)
        leaves.append(tuple(dict.fromkeys(topology.hosts[group[0]].leaves)))
    widths = {len(unit) for unit in leaves}
    if widths not in ({1}, {rails}):
        raise ValueError(
            f"expected one leaf for each rail, or one for all {rails}, got {_listed(sorted(widths))} of a host"
        )
    seen: set[str] = set()
    for unit in leaves:
        for leaf in unit:
            if leaf in seen:
                raise ValueError(f"leaf {leaf} serves hosts whose other rails are on different leaves")
            seen.add(leaf)
    return _Units(tuple(hosts), tuple(leaves), widths.pop())


def _above(topology: Topology) -> dict[str, _Above]:
    """Each switch's uplinks; ValueError when one has unlike cables, or more to one switch than to another."""
    cables: dict[str, dict[str, int]] = {}
    rates: dict[str, set[float]] = {}
    for uplinks in topology.uplinks:
        for lower in uplinks.lower:
            own = cables.setdefault(lower, {})
            rates.setdefault(lower, set()).add(uplinks.line_rate_gbps)
            for upper in uplinks.upper:
                own[upper] = own.get(upper, 0) + uplinks.count
    for lower, own in cables.items():
        if len(set(own.values())) > 1:
            raise ValueError(f"{lower} has {_listed(sorted(set(own.values())))} cables to different switches above it")
        if len(rates[lower]) > 1:
            raise ValueError(f"{lower} has uplinks of different rates: {_listed(sorted(rates[lower]))} Gb/s")
    return {
        lower: _Above(tuple(own), next(iter(own.values())), next(iter(rates[lower]))) for lower, own in cables.items()
    }


def _alike(tier: str, names: Iterable[str], above: Mapping[str, _Above]) -> dict[str, _Above]:
    """What is above each switch of a tier; as many cables of the same rate above all of them."""
    found: dict[str, _Above] = {}
    for name in names:
        if name not in above:
            raise ValueError(f"{tier} {name} has no uplinks: there is no network above it to simulate")
        found[name] = above[name]
    shapes = {(len(one.names), one.count, one.rate_gbps): name for name, one in found.items()}
    if len(shapes) > 1:
        (first, second) = [f"{name} {n} x {c} at {r:g} Gb/s" for (n, c, r), name in list(shapes.items())[:2]]
        raise ValueError(f"{tier} switches differ in their uplinks: {first}, {second}")
    return found


def _blocks(leaf_above: Mapping[str, _Above]) -> tuple[list[tuple[str, ...]], list[int]]:
    """The distinct sets of spines, and which of them is above each leaf; sets that overlap in part are an error."""
    numbers: dict[frozenset[str], int] = {}
    blocks: list[tuple[str, ...]] = []
    of_leaf: list[int] = []
    owner: dict[str, str] = {}
    for leaf, one in leaf_above.items():
        key = frozenset(one.names)
        if key not in numbers:
            for spine in one.names:
                if spine in owner:
                    raise ValueError(f"{owner[spine]} and {leaf} share some spines but not all")
                owner[spine] = leaf
            numbers[key] = len(blocks)
            blocks.append(one.cables)
        of_leaf.append(numbers[key])
    return blocks, of_leaf


def _planes(units: _Units, leaf_above: Mapping[str, _Above]) -> _Spines:
    """Two levels: one block for all leaves, or a block for some rails, the same in every unit."""
    blocks, of_leaf = _blocks(leaf_above)
    for position, block in enumerate(of_leaf):
        if block != of_leaf[position % units.width]:
            leaves = list(leaf_above)
            raise ValueError(
                f"no path from {leaves[position % units.width]} to {leaves[position]}: no spine joins them"
            )
    return _Spines(tuple(blocks), tuple(of_leaf))


def _pods(units: _Units, leaf_above: Mapping[str, _Above], above: Mapping[str, _Above]) -> tuple[_Units, _Spines]:
    """Three levels: each block is a pod of whole units, the same number of them in each; units come in pod order."""
    blocks, of_leaf = _blocks(leaf_above)
    rows = [of_leaf[start : start + units.width] for start in range(0, len(of_leaf), units.width)]
    if any(len(set(row)) > 1 for row in rows):
        raise ValueError("three levels with spines of their own for each rail cannot be simulated yet")
    if any(len(set(block)) != len(block) for block in blocks):
        raise ValueError("three levels with parallel cables between leaf and spine cannot be simulated yet")
    sizes = sorted({[row[0] for row in rows].count(pod) for pod in range(len(blocks))})
    if len(sizes) > 1:
        raise ValueError(f"pods have different numbers of units: {_listed(sizes)}")
    order = sorted(range(len(rows)), key=lambda unit: rows[unit][0])
    spine_above = _alike("spine", (spine for block in blocks for spine in block), above)
    rates = {one.rate_gbps for one in (*spine_above.values(), *leaf_above.values())}
    if len(rates) > 1:
        raise ValueError(f"uplinks of leaves and spines differ in rate: {_listed(sorted(rates))} Gb/s")
    ordered = _Units(tuple(units.hosts[u] for u in order), tuple(units.leaves[u] for u in order), units.width)
    aligned = tuple(_aligned(blocks[0], block, spine_above) for block in blocks)
    cores = tuple(spine_above[spine].cables for spine in blocks[0])
    return ordered, _Spines(aligned, tuple(rows[unit][0] for unit in order for _ in rows[unit]), cores)


def _aligned(first: Sequence[str], block: Sequence[str], above: Mapping[str, _Above]) -> tuple[str, ...]:
    """The spines of a pod in the order of the first pod's: those at one position join the same cores."""
    left = list(block)
    ordered = []
    for spine in first:
        same = next((name for name in left if set(above[name].names) == set(above[spine].names)), None)
        if same is None:
            raise ValueError(f"no spine beside {block[0]} joins the cores that {spine} joins")
        left.remove(same)
        ordered.append(same)
    return tuple(ordered)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
