"""
RNIC to RNIC of another host, on the same rail, one way (ib_write_bw): what `judge.locate.pairs` judges.

One rail at a time and one direction at a time say most: a two-host all-reduce uses all rails and both directions, and
is as slow as the slowest of them. Buffers are in host memory next to the RNIC, as in the published limit (oci-hpc
multi_node_active_healthcheck.py, measured between two hosts).

A pair that leaves its leaf claims the uplinks of both leaves, and one that leaves its pod a cable to the cores: with
static routes two pairs may share one although there are enough, and would seem slow without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations
from sys import intern
from typing import Annotated, ClassVar

from fabric.model.diagnosis import PairTest
from fabric.model.fields.entry import NotInFiles
from fabric.model.fields.scalars import Whole
from fabric.model.probe import ParamValue, Probe
from fabric.model.topology import Host, Rnic, Topology
from fabric.probes.pairs import Plane, across_leaves, moved, planes_of, under_leaves
from fabric.probes.perftest_pair import SETUP_S, PerftestSpec
from fabric.probes.shapes import Name, QueuePairs, Seconds, int_param, repeated, through_switch

KIND = "pairwise"

FIRST_PORT = 30_000
"""TCP ports of these probes' servers: above those counted from ``kinds.FIRST_PORT``, below the ephemeral ones."""

_ROUNDS_APART = 32  # ports of as many rounds differ: a server that lingers is not in the next round's way


Ways = tuple[tuple[str, ...], tuple[str, ...]]
"""Which ways bytes take through the PCIe switch of the sender, and of the receiver."""

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
        """Where it is only of some pairs."""
        return bool(self.only)

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """The first rounds of every plane: one under the leaves, the others across them."""
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
        """Parameters that no other kind of pair has."""
        return {}

    def probes_of(
        self, test: PairTest, plane: Plane, *, phase: str, topology: Topology, number: int, reverse: bool
    ) -> Iterator[Probe]:
        """One test of round *number* (from 0), as often as it is repeated; with *reverse* its second host sends."""
        names = (test.b, test.a) if reverse else (test.a, test.b)
        ends = [topology.hosts[name] for name in names]
        rnics = [_rnic(host, plane.rail) for host in ends]
        claims = _claims(ends, rnics, topology, self.ways)
        for label, series in repeated(f"{rnics[0].device}.t{number + 1}", self.repeat):
            why = {"why": test.why} if test.why else {}
            yield Probe(
                probe_id=f"{phase}/{names[0]}+{names[1]}/{self.name}.{label}",
                kind=self.kind,
                phase=phase,
                hosts=names,
                claims=claims,
                duration_s=self.duration_s + SETUP_S,
                params={
                    "rnic": rnics[0].device,
                    "peer_rnic": rnics[1].device,
                    "rail": plane.rail,
                    "round": number,
                    **self.load,
                    "port": self.first_port + plane.rail * _ROUNDS_APART + number % _ROUNDS_APART,
                    "series": f"{names[0]}+{names[1]}/{series}",
                    "name": self.name,
                    **self.own_params(),
                    **why,
                },
            )


class PairwiseSpec(PairSpec):
    """RNIC to RNIC of another host on the same rail, in rounds of pairs (ib_write_bw)."""

    kind: ClassVar[str] = KIND

    name: Name = KIND


def other_pairs(
    probe: Probe, left: str, planned: Iterable[Probe], bereft: Callable[[str], bool], topology: Topology
) -> Iterator[Probe]:
    """
    The same measurement of the host that is *left* with each other host of its plane, the most fitting first.

    First those that lost their partner of this round as well (*bereft*): one test serves both. Then those beyond the
    leaf, if the lost one was, so that uplinks are crossed as planned; then the next in the order of the *planned*
    probes. Pairs that are planned anyway are left out.
    """
    rail = int_param(probe, "rail")
    rate = _rnic(topology.hosts[left], rail).line_rate_gbps
    rounds = [one for one in planned if one.kind == KIND and one.params["rail"] == rail]
    pairs = {frozenset(one.hosts) for one in rounds}
    hosts = list(dict.fromkeys(host for one in rounds for host in one.hosts))
    at = hosts.index(left)
    beyond = _leaf(topology.hosts[probe.hosts[0]], rail) != _leaf(topology.hosts[probe.hosts[1]], rail)
    fit: list[tuple[bool, bool, int, str]] = []
    for place, name in enumerate(hosts):
        other = topology.hosts[name]
        if frozenset((left, name)) in pairs or name == left or _rnic(other, rail).line_rate_gbps != rate:
            continue
        across = _leaf(topology.hosts[left], rail) != _leaf(other, rail)
        fit.append((not bereft(name), across != beyond, (place - at) % len(hosts), name))
    for alone, _, _, name in sorted(fit):
        sends = left == probe.hosts[0] if alone else left < name  # the same test, whoever of the two asks for it
        yield _moved(probe, (left, name) if sends else (name, left), topology)


def _moved(probe: Probe, names: tuple[str, str], topology: Topology) -> Probe:
    """The probe with other hosts; its id names them."""
    ends = [topology.hosts[name] for name in names]
    rnics = [_rnic(host, int_param(probe, "rail")) for host in ends]
    own = {"rnic": rnics[0].device, "peer_rnic": rnics[1].device, "why": "another partner"}
    return moved(probe, names, _claims(ends, rnics, topology), **own)


def _claims(ends: Sequence[Host], rnics: Sequence[Rnic], topology: Topology, ways: Ways = ONE_WAY) -> tuple[str, ...]:
    """
    Of a sender and a receiver: their RNICs, the way through their PCIe switches, the uplinks of two leaves and of pods.

    Interned: of a fleet a million probes name the same few ten thousand.
    """
    claims = [f"{host.name}/{rnic.device}" for host, rnic in zip(ends, rnics, strict=True)]
    for host, rnic, own in zip(ends, rnics, ways, strict=True):
        claims += (f"{host.name}/{claim}" for claim in through_switch(rnic, *own))
    leaves = [leaf for leaf in (_leaf(host, rnics[0].rail) for host in ends) if leaf is not None]
    if len(leaves) > 1 and leaves[0] != leaves[1]:
        claims += [f"{leaf}:up" for leaf in leaves]
        for (start, end), claim in zip(permutations(leaves), reversed(claims[:2]), strict=True):
            claims += topology.core_cables(start, end, claim) if start == leaves[0] or len(ways[0]) > 1 else ()
    return tuple(map(intern, claims))


def _leaf(host: Host, rail: int) -> str | None:
    return host.leaves[rail] if rail < len(host.leaves) else None


def _rnic(host: Host, rail: int) -> Rnic:
    return host.platform.rnic_by_rail[rail]


def round_of(probe: Probe) -> int:
    """In which round it was measured, from 0."""
    return int_param(probe, "round")
