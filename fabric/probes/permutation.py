"""
Every host sends to one other and receives from one, all at once: what the network carries when nobody shares an end.

No receiver is asked for more than its line, so what is missing is lost between the leaves: to hashes that put several
flows on one uplink, or to fewer uplinks than hosts. Healthy fabrics differ in it by how they route. Of 512 hosts below
static routes random pairs had 38 % of their lines, with adaptive routing at best 77 % (Geoffray and Hoefler, Hot
Interconnects 2008); that is where the limit by default is from, and why it is low.

A **permutation** draws an order of the hosts (*seed*), and shifts it by one more each round: no host has the same
partner twice. A **bisection** has one half of the leaves send to the other half and back, all through the middle; each
round turns the second half by one. Both are written alike in a probe: hosts in a circle, and by how many places each
sends on.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from fabric.model.fields.scalars import Whole
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.at_once import MOST_SENDERS, AtOnceSpec, Draw, Flows, Least
from fabric.probes.collective import shuffled
from fabric.probes.pairwise import Plane
from fabric.probes.shapes import Name, Seed, int_param

SHIFT = "shift"
"""A parameter: to the host so many places on in the circle each host sends."""


class CircleSpec(AtOnceSpec):
    """Every host of a plane sends and receives once; a subclass says in which circles, round by round."""

    needs: ClassVar[str] = "another host in the run with an RNIC of the same rail and line rate"

    rounds: Annotated[int, Whole(1, 64)] = 4
    """How many rounds, each with other partners; fewer where there are not so many partners."""
    at_least: Least = 0.35
    """The least of all receivers' line rates that the sum must be."""
    even: Least = 0.5
    """Jain's index of the senders' bandwidths: 1 is even; below it is MARGINAL."""

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """The hosts in a circle, and by how many places each sends on; one round after the other."""
        raise NotImplementedError

    def draws(self, plane: Plane, topology: Topology) -> Iterator[Draw]:
        """All rounds; of many hosts in parts that are measured one after the other."""
        parts = -(-len(plane.hosts) // MOST_SENDERS)
        for part in range(parts):
            of = plane.only(plane.hosts[part::parts])
            for number, (circle, shift) in enumerate(self.circles(of, topology)):
                about = f"{circle[0]}+{len(circle) - 1}-more"
                yield sends(circle, shift), about, f"t{number + 1}", {SHIFT: shift, "round": number}

    @classmethod
    def order(cls, flows: Flows) -> tuple[str, ...]:
        """The circle."""
        return tuple(sender for sender, _ in flows)

    @classmethod
    def flows(cls, probe: Probe) -> list[tuple[str, str]]:
        """Round the circle."""
        return sends(probe.hosts, int_param(probe, SHIFT))


def sends(circle: Sequence[str], shift: int) -> list[tuple[str, str]]:
    """Who sends to whom, where each host of a circle sends so many places on."""
    return [(host, circle[(at + shift) % len(circle)]) for at, host in enumerate(circle)]


class PermutationSpec(CircleSpec):
    """Rounds in which each host sends to one and receives from one, no two the same (ib_write_bw)."""

    kind: ClassVar[str] = "permutation"

    name: Name = kind
    seed: Seed = 0

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """One order, shifted by one place more each round."""
        order = [host.name for host in shuffled((topology.hosts[name] for name in plane.hosts), seed=self.seed)]
        yield from ((order, shift) for shift in range(1, min(self.rounds, len(order) - 1) + 1))


class BisectionSpec(CircleSpec):
    """One half of the leaves against the other, both ways, all at once, in rounds of other partners (ib_write_bw)."""

    kind: ClassVar[str] = "bisection"
    needs: ClassVar[str] = "another host in the run with an RNIC of the same rail, under another leaf where there are"

    name: Name = kind

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """The first half, and behind it the second, turned by one place each round; those left over rest."""
        groups = list(plane.leaves.values()) if len(plane.leaves) > 1 else [(host,) for host in plane.hosts]
        middle = len(groups) // 2
        first, second = ([host for group in half for host in group] for half in (groups[:middle], groups[middle:]))
        count = min(len(first), len(second))
        for turn in range(min(self.rounds, len(second))):
            turned = second[turn:] + second[:turn]
            yield [*first[:count], *turned[:count]], count
