"""A simulated network whose hosts, switches and links have the names of the inventory it was built from."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fabric.model.text import fold
from fabric.model.topology import Platform, Rnic, Topology
from fabric.sim.net.clos import Clos, ClosSpec, wired

Cable = tuple[int, int]
"""The ids of a cable's two directed links: from its first end to its second, and back."""

_Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NamedClos:
    """
    A Clos and the names of its parts.

    *hosts*: by host id. *ends*: host and device of each RNIC, by its number. *leaves*: by leaf id. *part*: of each
    leaf; only leaves of the same part are joined. *block*: for each leaf, the block of spines above it (of a pod, or of
    some rails). *spines*: by block, one name for each uplink of a leaf; parallel cables repeat the name. *cores*: by
    block and spine, one name for each uplink.
    """

    clos: Clos
    hosts: tuple[str, ...]
    ends: tuple[tuple[str, str], ...]
    leaves: tuple[str, ...]
    part: _Ids
    block: tuple[int, ...]
    spines: tuple[tuple[str, ...], ...]
    cores: tuple[tuple[tuple[str, ...], ...], ...] = ()

    @cached_property
    def host_ids(self) -> dict[str, int]:
        """Return host ids by name."""
        return {name: number for number, name in enumerate(self.hosts)}

    @cached_property
    def leaf_ids(self) -> dict[str, int]:
        """Return leaf ids by name."""
        return {name: number for number, name in enumerate(self.leaves)}

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Return every switch of the network, once."""
        spines = (spine for block in self.spines for spine in block)
        cores = (core for block in self.cores for row in block for core in row)
        return tuple(dict.fromkeys((*self.leaves, *spines, *cores)))

    def access(self, host: str, device: str) -> Cable:
        """Return the cable of one RNIC; raises KeyError when there is none."""
        nic = self.nics[host, device]
        return int(self.clos.nic_up(nic)), int(self.clos.nic_dn(nic))

    @cached_property
    def nics(self) -> dict[tuple[str, str], int]:
        """Return the number of each RNIC, by host and device."""
        return {end: number for number, end in enumerate(self.ends)}

    def cables(self, one: str, other: str) -> tuple[Cable, ...]:
        """Return the parallel cables between two switches, as seen from *one*; none when they are not joined."""
        return self._seen_from.get((one, other), ())

    @cached_property
    def _seen_from(self) -> dict[tuple[str, str], tuple[Cable, ...]]:
        """Return the cables between two joined switches, as seen from the first of them."""
        up = {both: tuple(cables) for both, cables in self._cables.items()}
        return up | {both[::-1]: tuple(one[::-1] for one in cables) for both, cables in up.items()}

    @cached_property
    def _cables(self) -> dict[tuple[str, str], list[Cable]]:
        """Return the cables between each joined pair of lower and upper switch."""
        found: dict[tuple[str, str], list[Cable]] = {}
        for lower, upper, cable in self._trunks():
            found.setdefault((lower, upper), []).append(cable)
        return found

    def _trunks(self) -> Iterator[tuple[str, str, Cable]]:
        """Yield lower switch, upper switch and links of every cable between switches."""
        clos = self.clos
        for leaf, lower in enumerate(self.leaves):
            for position, upper in enumerate(self.spines[self.block[leaf]]):
                yield lower, upper, (int(clos.leaf_up(leaf, position)), int(clos.leaf_dn(leaf, position)))
        for pod, spines in enumerate(self.cores):
            for spine, cores in enumerate(spines):
                for number, upper in enumerate(cores):
                    ids = int(clos.spine_up(pod, spine, number)), int(clos.spine_dn(pod, spine, number))
                    yield self.spines[pod][spine], upper, ids

    @cached_property
    def trunks(self) -> npt.NDArray[np.int64]:
        """Return every cable between switches as one row of (up id, down id)."""
        return np.array([cable for _, _, cable in self._trunks()], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def link_names(self) -> dict[int, str]:
        """Return the name of each directed link: ``gpu003/mlx5_2->su0-leaf2``, ``su0-leaf2->spine03``."""
        names = {}
        for nic, leaf in enumerate(self.clos.leaf_at.tolist()):
            name = "/".join(self.ends[nic])
            names[nic], names[nic + self.clos.nics] = f"{name}->{self.leaves[leaf]}", f"{self.leaves[leaf]}->{name}"
        for (lower, upper), cables in self._cables.items():
            for number, (up, down) in enumerate(cables):
                one = upper if len(cables) == 1 else f"{upper}#{number}"
                names[up], names[down] = f"{lower}->{one}", f"{one}->{lower}"
        return names

    @cached_property
    def trunk_names(self) -> list[str]:
        """
        Return the names of the links that adaptive routing pools: ``su0-leaf2->spines``, ``cores->pod 1``.

        The links of RNICs keep their names.
        """
        names = [self.link_names[link] for link in range(2 * self.clos.nics)]
        names += [f"{leaf}->spines" for leaf in self.leaves] + [f"spines->{leaf}" for leaf in self.leaves]
        pods = range(len(self.spines))
        return names + [f"pod {pod}->cores" for pod in pods] + [f"cores->pod {pod}" for pod in pods]


@dataclass(frozen=True, slots=True)
class _Above:
    """
    The uplinks of a switch: each upper switch once in *names*, with *count* parallel cables to each, all of one rate.
    """

    names: tuple[str, ...]
    count: int
    rate_gbps: float


_NOTHING = _Above((), 0, 1.0)


def net_from_topology(topology: Topology, *, above_leaves: bool = True) -> NamedClos:
    """
    Build the network of a topology, or only the part below the spines; raises ValueError for what is not regular.

    RNICs may be on any leaf. Two levels: leaves that join the same spines are one block; with no uplinks at all each
    leaf is a block of its own. Three levels: a block is a pod, or for some rails a part of one with spines of its own.
    """
    _require_rails(topology)
    leaves = list(dict.fromkeys(leaf for group in topology.tor_groups for leaf in topology.hosts[group[0]].leaves))
    above = _above(topology) if above_leaves else {}
    if above_leaves and not above and not topology.apart:
        raise ValueError(f"leaf {leaves[0]} has no uplinks, and hosts of one rail are on several: what joins them?")
    leaf_above = _alike("leaf", leaves, above)
    blocks, of_leaf = _blocks(leaf_above)
    cores: tuple[tuple[tuple[str, ...], ...], ...] = ()
    core_gbps = 0.0
    if any(name in above for block in blocks for name in block):
        blocks, cores, core_gbps = _pods(blocks, of_leaf, above)
        leaves.sort(key=lambda leaf: of_leaf[leaf])
    leaf_ids = {leaf: number for number, leaf in enumerate(leaves)}
    listed = [topology.hosts[name] for group in topology.tor_groups for name in group]
    listed.sort(key=lambda host: of_leaf[host.leaves[0]] if cores else 0)
    rails = 1 + max(rnic.rail for host in listed for rnic in host.platform.rnics)
    leaf_of = np.full((len(listed), rails), -1, dtype=np.int64)
    for number, host in enumerate(listed):
        for rnic in host.platform.rnics:
            leaf_of[number, rnic.rail] = leaf_ids[host.leaves[rnic.rail]]
    by_rail = (leaf_of == -1) | (leaf_of % rails == np.arange(rails))  # each leaf has one rail, in the order of rails
    first = leaf_above[leaves[0]]
    rates = [rnic.line_rate_gbps for host in listed for rnic in _by(host.platform)]
    spec = ClosSpec(
        hosts=len(listed),
        rails=rails,
        down=int(np.bincount(leaf_of[leaf_of >= 0]).max()),
        up=len(blocks[0]),
        levels=3 if cores else 2,
        leaves_per_pod=len(leaves) // len(blocks) if cores else 0,
        core_up=len(cores[0][0]) if cores else 0,
        rail_optimised=bool(by_rail.all()),
        line_rate_gbps=max(rates),
        uplink_gbps=first.rate_gbps,
        core_gbps=core_gbps,
    )
    return NamedClos(
        clos=wired(spec, leaf_of, np.array(rates)),
        hosts=tuple(host.name for host in listed),
        ends=tuple((host.name, rnic.device) for host in listed for rnic in _by(host.platform)),
        leaves=tuple(leaves),
        part=np.array([topology.parts[leaf] if above else leaf_ids[leaf] for leaf in leaves]),
        block=tuple(of_leaf[leaf] for leaf in leaves),
        spines=tuple(blocks),
        cores=cores,
    )


def _by(platform: Platform) -> list[Rnic]:
    return sorted(platform.rnics, key=lambda rnic: rnic.rail)


def _require_rails(topology: Topology) -> None:
    """Raise ValueError where a rail of a platform has no RNIC, or two, or where hosts have no leaves."""
    for name, platform in {host.platform.name: host.platform for host in topology.hosts.values()}.items():
        shape = [rnic.rail for rnic in _by(platform)]
        if shape != list(range(len(shape))):
            raise ValueError(f"platform {name}: expected one RNIC on each rail from 0, got rails {_listed(shape)}")
    bare = [host.name for host in topology.hosts.values() if len(host.leaves) < len(host.platform.rnics)]
    if bare:
        raise ValueError(f"{fold(bare[:16])} without a leaf for each RNIC: give 'leaves' under hosts:")


def _above(topology: Topology) -> dict[str, _Above]:
    """
    Return each switch's uplinks; raises ValueError for unlike cables, or more cables to one switch than to another.
    """
    rates: dict[str, set[float]] = {}
    for uplinks in topology.uplinks:
        for lower in uplinks.lower:
            rates.setdefault(lower, set()).add(uplinks.line_rate_gbps)
    found: dict[str, _Above] = {}
    for lower, own in topology.above.items():
        if len(set(own.values())) > 1:
            raise ValueError(f"{lower} has {_listed(sorted(set(own.values())))} cables to different switches above it")
        if len(rates[lower]) > 1:
            raise ValueError(f"{lower} has uplinks of different rates: {_listed(sorted(rates[lower]))} Gb/s")
        found[lower] = _Above(tuple(own), next(iter(own.values())), next(iter(rates[lower])))
    return found


def _alike(tier: str, names: Iterable[str], above: Mapping[str, _Above]) -> dict[str, _Above]:
    """Return what is above each switch of a tier; raises ValueError unless all have equally many cables of one rate."""
    found: dict[str, _Above] = {}
    for name in names:
        if above and name not in above:
            raise ValueError(f"{tier} {name} has no uplinks: there is no network above it to simulate")
        found[name] = above.get(name, _NOTHING)
    shapes = {(len(one.names), one.count, one.rate_gbps): name for name, one in found.items()}
    if len(shapes) > 1:
        (first, second) = [f"{name} {n} x {c} at {r:g} Gb/s" for (n, c, r), name in list(shapes.items())[:2]]
        raise ValueError(f"{tier} switches differ in their uplinks: {first}, {second}")
    return found


def _blocks(leaf_above: Mapping[str, _Above]) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    """
    Return the distinct sets of spines, and which set is above each leaf; raises ValueError for sets that partly
    overlap.
    """
    numbers: dict[frozenset[str] | str, int] = {}
    blocks: list[tuple[str, ...]] = []
    of_leaf: dict[str, int] = {}
    owner: dict[str, str] = {}
    for leaf, one in leaf_above.items():
        key = frozenset(one.names) or leaf  # without spines each leaf is by itself
        if key not in numbers:
            for spine in one.names:
                if spine in owner:
                    raise ValueError(f"{owner[spine]} and {leaf} share some spines but not all")
                owner[spine] = leaf
            numbers[key] = len(blocks)
            blocks.append(one.names * one.count)  # a name for each cable
        of_leaf[leaf] = numbers[key]
    return blocks, of_leaf


def _pods(
    blocks: list[tuple[str, ...]], of_leaf: Mapping[str, int], above: Mapping[str, _Above]
) -> tuple[list[tuple[str, ...]], tuple[tuple[tuple[str, ...], ...], ...], float]:
    """
    Return the blocks of three levels with their spines in one order, the cores above each, and the rate to the cores.

    Raises ValueError unless every block has equally many leaves.
    """
    if any(len(set(block)) != len(block) for block in blocks):
        raise ValueError("three levels with parallel cables between leaf and spine cannot be simulated yet")
    sizes = sorted(set(Counter(of_leaf.values()).values()))
    if len(sizes) > 1:
        raise ValueError(f"pods have different numbers of leaves: {_listed(sizes)}")
    spine_above = _alike("spine", (spine for block in blocks for spine in block), above)
    made: list[tuple[str, ...]] = []
    firsts: dict[frozenset[str], tuple[str, ...]] = {}  # by the cores that a block reaches
    for block in blocks:
        reached = frozenset(core for spine in block for core in spine_above[spine].names)
        made.append(_aligned(firsts.setdefault(reached, block), block, spine_above))
    cores = tuple(tuple(spine_above[spine].names * spine_above[spine].count for spine in block) for block in made)
    return made, cores, next(iter(spine_above.values())).rate_gbps


def _aligned(first: Sequence[str], block: Sequence[str], above: Mapping[str, _Above]) -> tuple[str, ...]:
    """Return the spines of a pod in the order of the first pod's: spines at one position join the same cores."""
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
