"""
Which hosts can be measured with each other (one plane a rail, and one a line rate), and which pairs to measure first.

Each host is measured once a round, so that a round takes the time of one test. Round 1 pairs neighbours under a leaf,
which exercises hosts and leaves alone. Later rounds pair hosts of different leaves, another leaf and another spine each
round, so that uplinks and spines are seen with different hosts. Methods that stay under the leaf find no uplink at all
(recall 0.75 in the mixed scenario of the benchmark).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fabric.model.diagnosis import PairTest
from fabric.model.probe import Probe
from fabric.model.topology import Topology

NO_LEAF = ""
"""The leaf of hosts of which the inventory says none: they are one group."""


@dataclass(frozen=True, slots=True)
class Plane:
    """
    RNICs of one rail and one line rate, by the leaf that they plug into; *leaves* holds hosts in inventory order.

    Hosts of different line rates never meet: the slower would hold the faster down, and look like its fault.
    """

    rail: int
    line_rate_gbps: float
    leaves: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """``rail3 400G``."""
        return f"rail{self.rail} {self.line_rate_gbps:g}G"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host of the plane, leaf by leaf."""
        return tuple(host for hosts in self.leaves.values() for host in hosts)

    def only(self, hosts: Iterable[str]) -> Plane:
        """The same plane of these hosts alone."""
        kept = frozenset(hosts)
        leaves = {leaf: tuple(host for host in group if host in kept) for leaf, group in self.leaves.items()}
        return Plane(self.rail, self.line_rate_gbps, {leaf: group for leaf, group in leaves.items() if group})


def planes_of(hosts: Iterable[str], topology: Topology) -> list[Plane]:
    """Every plane of two hosts or more that have a way to each other, by rail, then by line rate, fastest first."""
    found: dict[tuple[int, float, int], dict[str, list[str]]] = {}
    for name in hosts:
        host = topology.hosts[name]
        for rnic in host.platform.rnics:
            leaf = host.leaves[rnic.rail] if rnic.rail < len(host.leaves) else NO_LEAF
            part = topology.part_of(host, rnic.rail)
            key = (rnic.rail, -rnic.line_rate_gbps, -1 if part is None else part)
            found.setdefault(key, {}).setdefault(leaf, []).append(name)
    planes = [
        Plane(rail, -rate, {leaf: tuple(group) for leaf, group in leaves.items()})
        for (rail, rate, _), leaves in sorted(found.items(), key=lambda item: item[0])
    ]
    return [plane for plane in planes if len(plane.hosts) > 1]


def circle(count: int, number: int) -> list[tuple[int, int]]:
    """Round *number* of a round-robin tournament of *count*: every two meet once in count - 1 rounds (odd: count)."""
    slots = count + count % 2
    if slots < 2:
        return []
    turn = number % (slots - 1)
    around = [slots - 1, *((turn + step) % (slots - 1) for step in range(slots - 1))]
    pairs = [(around[0], around[1])] + [(around[1 + k], around[slots - k]) for k in range(1, slots // 2)]
    return [(min(pair), max(pair)) for pair in pairs if max(pair) < count]


def matches_all(leaves: Mapping[str, Sequence[str]]) -> bool:
    """Whether every round, under the leaves or across them, leaves nobody over: leaves of one size, two by two."""
    sizes = {len(hosts) for hosts in leaves.values()}
    return len(sizes) == 1 and (len(leaves) % 2 == 0 or (len(leaves) == 1 and sizes.pop() % 2 == 0))


def under_leaves(leaves: Mapping[str, Sequence[str]]) -> list[PairTest]:
    """Neighbours under each leaf; those left over are paired with each other."""
    tests, left = [], []
    for hosts in leaves.values():
        tests += [PairTest(a, b, why="neighbours under a leaf") for a, b in zip(hosts[::2], hosts[1::2], strict=False)]
        left += [hosts[-1]] if len(hosts) % 2 else []
    return tests + [PairTest(a, b, why="left over") for a, b in zip(left[::2], left[1::2], strict=False)]


def across_leaves(leaves: Mapping[str, Sequence[str]], spines: Sequence[str], number: int) -> list[PairTest]:
    """Cross round *number* (from 0): leaves in turn, hosts shifted, spines rotated; with one leaf, other neighbours."""
    names = list(leaves)
    if len(names) < 2:
        hosts = [host for group in leaves.values() for host in group]
        return [PairTest(hosts[a], hosts[b], why="another neighbour") for a, b in circle(len(hosts), number)]
    tests: list[PairTest] = []
    used: set[str] = set()
    for first, second in circle(len(names), number):
        here, there = leaves[names[first]], leaves[names[second]]
        shift = number + 1
        for position in range(min(len(here), len(there))):
            via = spines[(position + number) % len(spines)] if spines else None
            a, b = here[position], there[(position + shift) % len(there)]
            tests.append(PairTest(a, b, via, "across leaves"))
            used |= {a, b}
    left = [host for group in leaves.values() for host in group if host not in used]
    shifted = left[number % 2 :]
    pairs = zip(shifted[::2], shifted[1::2], strict=False)
    return tests + [PairTest(a, b, why="left over") for a, b in pairs]


def moved(probe: Probe, names: Sequence[str], claims: tuple[str, ...], **own: str) -> Probe:
    """
    The same measurement of other hosts; *own* are parameters that differ.

    Its id and its series name the hosts, and behind them the RNIC that sends where it is of one.
    """
    label = "+".join(names)
    name, series = (text.rpartition("/")[2] for text in (probe.probe_id, str(probe.params["series"])))
    if "rnic" in own:
        name, series = (text.replace(f".{probe.params['rnic']}.", f".{own['rnic']}.", 1) for text in (name, series))
    params = {**probe.params, "series": f"{label}/{series}", **own}
    return replace(probe, probe_id=f"{probe.phase}/{label}/{name}", hosts=tuple(names), claims=claims, params=params)
