"""RNIC to RNIC of another host on the same rail, one way (ib_write_bw), for ``judge.locate.pairs`` to judge.

One rail and one direction at a time tell most: a two-host all-reduce uses all rails and both directions, and is as slow
as the slowest of them. Buffers are in host memory next to the RNIC, as in the published limit (oci-hpc
multi_node_active_healthcheck.py, measured between two hosts).

Hosts that can be measured with each other form a plane, one for each rail and line rate. Each host is measured once a
round, so a round takes the time of one test. Round 1 pairs neighbours under a leaf, which tests only hosts and leaves.
Later rounds pair hosts of different leaves, with another leaf and another spine each round, so that uplinks and spines
are seen with different hosts. Methods that stay under the leaf find no uplink at all (recall 0.75 in the mixed scenario
of the benchmark).

A pair that leaves its leaf claims the uplinks of both leaves, and one that leaves its pod a cable to the cores: with
static routes two pairs may share a cable although there are enough, and would seem slow without a fault.

Both ways at once (``bidirectional``, ib_write_bw -b), perftest prints only the sum of both directions, so half the sum
is judged: the mean of the two. Both directions together must carry twice a limit; a single slow direction shows with
half of its loss, and only ``pairwise`` tells which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from sys import intern
from typing import Annotated, ClassVar

from fabric.model.diagnosis import PairTest
from fabric.model.fields.entry import NotInFiles
from fabric.model.fields.scalars import Whole
from fabric.model.probe import Answered, ParamValue, Probe, Reading
from fabric.model.topology import Host, Rnic, Topology
from fabric.probes.perftest_pair import FLOW_LABEL, PerftestSpec
from fabric.probes.shapes import Name, QueuePairs, Seconds, int_param, repeated, through_switch
from fabric.tools.perftest.command import CommandSide

NO_LEAF = ""
"""The leaf of hosts whose leaf the inventory does not give: they form one group."""


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
        """Return ``rail3 400G``."""
        return f"rail{self.rail} {self.line_rate_gbps:g}G"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return every host of the plane, leaf by leaf."""
        return tuple(host for hosts in self.leaves.values() for host in hosts)

    def only(self, hosts: Iterable[str]) -> Plane:
        """Return the plane with only these hosts."""
        kept = frozenset(hosts)
        leaves = {leaf: tuple(host for host in group if host in kept) for leaf, group in self.leaves.items()}
        return Plane(self.rail, self.line_rate_gbps, {leaf: group for leaf, group in leaves.items() if group})


def planes_of(hosts: Iterable[str], topology: Topology) -> list[Plane]:
    """Return every plane of two or more hosts that the fabric joins, by rail, then by line rate, fastest first."""
    found: dict[tuple[int, float, int], dict[str, list[str]]] = {}
    for name in hosts:
        host = topology.hosts[name]
        for rnic in host.platform.rnics:
            leaf = host.leaf(rnic.rail) or NO_LEAF
            part = topology.part_of(host, rnic.rail)
            key = (rnic.rail, -rnic.line_rate_gbps, -1 if part is None else part)
            found.setdefault(key, {}).setdefault(leaf, []).append(name)
    planes = [
        Plane(rail, -rate, {leaf: tuple(group) for leaf, group in leaves.items()})
        for (rail, rate, _), leaves in sorted(found.items(), key=lambda item: item[0])
    ]
    return [plane for plane in planes if len(plane.hosts) > 1]


def round_robin(count: int, number: int) -> list[tuple[int, int]]:
    """
    Return round *number* of a round-robin tournament of *count*: any two meet once in count - 1 rounds (odd: count).
    """
    slots = count + count % 2
    if slots < 2:
        return []
    turn = number % (slots - 1)
    around = [slots - 1, *((turn + step) % (slots - 1) for step in range(slots - 1))]
    pairs = [(around[0], around[1])] + [(around[1 + k], around[slots - k]) for k in range(1, slots // 2)]
    return [(min(pair), max(pair)) for pair in pairs if max(pair) < count]


def matches_all(leaves: Mapping[str, Sequence[str]]) -> bool:
    """
    Return whether no round, under the leaves or across them, leaves a host over: leaves of one size, an even number.
    """
    sizes = {len(hosts) for hosts in leaves.values()}
    return len(sizes) == 1 and (len(leaves) % 2 == 0 or (len(leaves) == 1 and sizes.pop() % 2 == 0))


def under_leaves(leaves: Mapping[str, Sequence[str]]) -> list[PairTest]:
    """Return pairs of neighbours under each leaf; hosts left over are paired with each other."""
    tests, left = [], []
    for hosts in leaves.values():
        tests += [PairTest(a, b, why="neighbours under a leaf") for a, b in zip(hosts[::2], hosts[1::2], strict=False)]
        left += [hosts[-1]] if len(hosts) % 2 else []
    return tests + [PairTest(a, b, why="left over") for a, b in zip(left[::2], left[1::2], strict=False)]


def across_leaves(leaves: Mapping[str, Sequence[str]], spines: Sequence[str], number: int) -> list[PairTest]:
    """
    Return cross round *number* (from 0): leaves in turn, hosts shifted, spines rotated.

    With only one leaf, hosts get another neighbour.
    """
    names = list(leaves)
    if len(names) < 2:
        hosts = [host for group in leaves.values() for host in group]
        return [PairTest(hosts[a], hosts[b], why="another neighbour") for a, b in round_robin(len(hosts), number)]
    tests: list[PairTest] = []
    used: set[str] = set()
    for first, second in round_robin(len(names), number):
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


def with_hosts(probe: Probe, names: Sequence[str], claims: tuple[str, ...], **own: str) -> Probe:
    """
    Return the same measurement of other hosts; *own* are parameters that differ.

    Its id and its series name the hosts, and then the RNIC that sends, if there is one.
    """
    label = "+".join(names)
    name, series = (text.rpartition("/")[2] for text in (probe.probe_id, str(probe.params["series"])))
    if "rnic" in own:
        name, series = (text.replace(f".{probe.params['rnic']}.", f".{own['rnic']}.", 1) for text in (name, series))
    params = {**probe.params, "series": f"{label}/{series}", **own}
    return replace(probe, probe_id=f"{probe.phase}/{label}/{name}", hosts=tuple(names), claims=claims, params=params)


KIND = "pairwise"

FIRST_PORT = 30_000
"""First TCP port of these probes' servers: above those counted from ``kinds.FIRST_PORT``, below the ephemeral ones."""

_ROUNDS_APART = 32  # so many rounds have ports of their own, so that a lingering server is not in the next round's way


Ways = tuple[tuple[str, ...], tuple[str, ...]]
"""The directions in which bytes pass the PCIe switch of the sender, and of the receiver."""

ONE_WAY: Ways = (("down",), ("up",))


class PairSpec(PerftestSpec):
    """
    What is measured between two RNICs of one rail, in *rounds* in which each host is measured once.

    The first round stays under the leaves, the others cross them. Size and queue pairs are those of the published limit
    (oci-hpc). Not empty, *only* keeps the pairs of which one host is named there. *first*: with which round of all it
    begins.
    """

    needs: ClassVar[str] = "another host in the run with an RNIC of the same rail and line rate"
    first_port: ClassVar[int] = FIRST_PORT
    ways: ClassVar[Ways] = ONE_WAY

    rounds: Annotated[int, Whole(1, 16)] = 3
    """How many rounds are planned: the first under the leaves, the others across them."""
    duration_s: Seconds = 3
    queue_pairs: QueuePairs = 2
    only: Annotated[tuple[str, ...], NotInFiles()] = ()
    first: Annotated[int, NotInFiles()] = 0

    @property
    def is_of_some(self) -> bool:
        """Return whether it measures only some pairs."""
        return bool(self.only)

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield the first rounds of every plane: one under the leaves, the others across them."""
        for plane in planes_of(hosts, topology):
            for number in range(self.first, self.first + self.rounds):
                tests = under_leaves(plane.leaves) if number == 0 else across_leaves(plane.leaves, (), number - 1)
                for test in tests:
                    if self.only and {test.a, test.b}.isdisjoint(self.only):
                        continue
                    # Odd rounds go the other way, so that every host sends and receives.
                    yield from self.probes_of(
                        test, plane, phase=phase, topology=topology, number=number, reverse=number % 2 == 1
                    )

    def own_params(self) -> dict[str, ParamValue]:
        """Return parameters that no other kind of pair has."""
        return {}

    def probes_of(
        self, test: PairTest, plane: Plane, *, phase: str, topology: Topology, number: int, reverse: bool
    ) -> Iterator[Probe]:
        """
        Yield one test of round *number* (from 0), as often as it is repeated; with *reverse* its second host sends.
        """
        names = (test.b, test.a) if reverse else (test.a, test.b)
        ends = [topology.hosts[name] for name in names]
        rnics = [host.rnic(plane.rail) for host in ends]
        claims = _claims(ends, rnics, topology, self.ways)
        for label, series in repeated(f"{rnics[0].device}.t{number + 1}", self.repeat):
            yield self.probe(
                phase,
                "+".join(names),
                (label, series),
                hosts=names,
                claims=claims,
                rnic=rnics[0].device,
                peer_rnic=rnics[1].device,
                rail=plane.rail,
                round=number,
                port=self.first_port + plane.rail * _ROUNDS_APART + number % _ROUNDS_APART,
                **self.own_params(),
                **self._flow_label(test, ends, number),
                **({"why": test.why} if test.why else {}),
            )

    def _flow_label(self, test: PairTest, ends: Sequence[Host], number: int) -> dict[str, ParamValue]:
        """
        Return the flow label, with which a test can be repeated over the very same path.

        Only on Ethernet and with one queue pair: several queue pairs with one label would all be on one path.
        """
        if self.queue_pairs > 1 or any(host.platform.link_layer != "ethernet" for host in ends):
            return {}
        return {FLOW_LABEL: number + 1 if test.label is None else test.label}


class PairwiseSpec(PairSpec):
    """RNIC to RNIC of another host on the same rail, in rounds of pairs (ib_write_bw)."""

    kind: ClassVar[str] = KIND

    name: Name = KIND


def other_pairs(
    probe: Probe, left: str, planned: Iterable[Probe], lost_partner: Callable[[str], bool], topology: Topology
) -> Iterator[Probe]:
    """
    Yield the same measurement of the host that is *left* with each other host of its plane, the best fit first.

    First those that lost their partner of this round as well (*lost_partner*): one test serves both. Then those under
    another leaf, if the lost one was, so that uplinks are crossed as planned; then the next in the order of the
    *planned* probes. Pairs that are planned anyway are left out.
    """
    rail = int_param(probe, "rail")
    rate = topology.hosts[left].rnic(rail).line_rate_gbps
    rounds = [one for one in planned if one.kind == KIND and one.params["rail"] == rail]
    pairs = {frozenset(one.hosts) for one in rounds}
    hosts = list(dict.fromkeys(host for one in rounds for host in one.hosts))
    at = hosts.index(left)
    beyond = topology.hosts[probe.hosts[0]].leaf(rail) != topology.hosts[probe.hosts[1]].leaf(rail)
    fit: list[tuple[bool, bool, int, str]] = []
    for place, name in enumerate(hosts):
        other = topology.hosts[name]
        if frozenset((left, name)) in pairs or name == left or other.rnic(rail).line_rate_gbps != rate:
            continue
        across = topology.hosts[left].leaf(rail) != other.leaf(rail)
        fit.append((not lost_partner(name), across != beyond, (place - at) % len(hosts), name))
    for alone, _, _, name in sorted(fit):
        sends = left == probe.hosts[0] if alone else left < name  # the same test, whichever of the two asks for it
        yield _moved(probe, (left, name) if sends else (name, left), topology)


def _moved(probe: Probe, names: tuple[str, str], topology: Topology) -> Probe:
    """Return the probe with other hosts, named in its id."""
    ends = [topology.hosts[name] for name in names]
    rnics = [host.rnic(int_param(probe, "rail")) for host in ends]
    own = {"rnic": rnics[0].device, "peer_rnic": rnics[1].device, "why": "another partner"}
    return with_hosts(probe, names, _claims(ends, rnics, topology), **own)


def _claims(ends: Sequence[Host], rnics: Sequence[Rnic], topology: Topology, ways: Ways = ONE_WAY) -> tuple[str, ...]:
    """
    Return the claims of a sender and a receiver.

    Their RNICs, the way through their PCIe switches, the uplinks of two leaves, and cables to the cores of two pods.
    The strings are interned: a million probes of a fleet name the same few ten thousand.
    """
    claims = [f"{host.name}/{rnic.device}" for host, rnic in zip(ends, rnics, strict=True)]
    for host, rnic, own in zip(ends, rnics, ways, strict=True):
        claims += (f"{host.name}/{claim}" for claim in through_switch(rnic, *own))
    leaves = [leaf for leaf in (host.leaf(rnics[0].rail) for host in ends) if leaf is not None]
    if len(leaves) > 1 and leaves[0] != leaves[1]:
        claims += [f"{leaf}:up" for leaf in leaves]
        for (start, end), claim in zip(permutations(leaves), reversed(claims[:2]), strict=True):
            claims += topology.core_cables(start, end, claim) if start == leaves[0] or len(ways[0]) > 1 else ()
    return tuple(map(intern, claims))


class BidirectionalSpec(PairSpec):
    """RNIC to RNIC of another host on the same rail, both ways at once, in rounds of pairs (ib_write_bw -b)."""

    kind: ClassVar[str] = "bidirectional"
    first_port: ClassVar[int] = 32_000
    ways: ClassVar[Ways] = (("down", "up"), ("down", "up"))
    peers: ClassVar[bool] = True

    name: Name = kind

    def own_params(self) -> dict[str, ParamValue]:
        """Return the direction, which keeps its records apart from those of one direction."""
        return {"direction": "both_ways"}

    @classmethod
    def words(cls, probe: Probe, side: CommandSide) -> tuple[str, ...]:
        """
        Return the words of ``pairwise`` with --bidirectional; the peer's name, the client's last word, stays last.
        """
        words = super().words(probe, side)
        at = words.index("--report_gbits")
        return *words[:at], "--bidirectional", *words[at:]

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Return the mean of both directions, or why there is none."""
        reading = super().read(probe, topology, answered)
        return replace(reading, measurements=tuple(replace(one, value=one.value / 2) for one in reading.measurements))
