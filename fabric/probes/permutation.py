"""Every host sends to one other and receives from one, all at once: what the network carries if nobody shares an end.

No receiver is asked for more than its line, so any loss is between the leaves: hashes put several flows on one uplink,
or there are fewer uplinks than hosts. Healthy fabrics differ here by how they route. With 512 hosts, random pairs under
static routes got 38 % of their lines, with adaptive routing at best 77 % (Geoffray and Hoefler, Hot Interconnects
2008); the default limit comes from there, and that is why it is low.

A **permutation** draws an order of the hosts (*seed*) and shifts it by one more each round, so no host has the same
partner twice. In a **bisection** one half of the leaves sends to the other half and back, all through the middle; each
round turns the second half by one. A probe describes both alike: hosts in a circle, and by how many places each sends
on.
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
"""The parameter that says how many places on in the circle each host sends."""


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
        """Yield the hosts in a circle, and by how many places each sends on; one round after the other."""
        raise NotImplementedError

    def draws(self, plane: Plane, topology: Topology) -> Iterator[Draw]:
        """Yield all rounds; many hosts are split into parts that are measured one after the other."""
        parts = -(-len(plane.hosts) // MOST_SENDERS)
        for part in range(parts):
            of = plane.only(plane.hosts[part::parts])
            for number, (circle, shift) in enumerate(self.circles(of, topology)):
                about = f"{circle[0]}+{len(circle) - 1}-more"
                yield sends(circle, shift), about, f"t{number + 1}", {SHIFT: shift, "round": number}

    @classmethod
    def order(cls, flows: Flows) -> tuple[str, ...]:
        """Return the circle."""
        return tuple(sender for sender, _ in flows)

    @classmethod
    def flows(cls, probe: Probe) -> list[tuple[str, str]]:
        """Return the flows round the circle."""
        return sends(probe.hosts, int_param(probe, SHIFT))


def sends(circle: Sequence[str], shift: int) -> list[tuple[str, str]]:
    """Return (sender, receiver) pairs in which each host of a circle sends *shift* places on."""
    return [(host, circle[(at + shift) % len(circle)]) for at, host in enumerate(circle)]


class PermutationSpec(CircleSpec):
    """Rounds in which each host sends to one and receives from one, no two the same (ib_write_bw)."""

    kind: ClassVar[str] = "permutation"

    name: Name = kind
    seed: Seed = 0

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """Yield one order, shifted by one place more each round."""
        order = [host.name for host in shuffled((topology.hosts[name] for name in plane.hosts), seed=self.seed)]
        yield from ((order, shift) for shift in range(1, min(self.rounds, len(order) - 1) + 1))


class BisectionSpec(CircleSpec):
    """One half of the leaves against the other, both ways, all at once, in rounds of other partners (ib_write_bw)."""

    kind: ClassVar[str] = "bisection"
    needs: ClassVar[str] = "another host in the run with an RNIC of the same rail, under another leaf where there are"

    name: Name = kind

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """Yield the first half followed by the second, turned by one place each round; hosts left over rest."""
        groups = list(plane.leaves.values()) if len(plane.leaves) > 1 else [(host,) for host in plane.hosts]
        middle = len(groups) // 2
        first, second = ([host for group in half for host in group] for half in (groups[:middle], groups[middle:]))
        count = min(len(first), len(second))
        for turn in range(min(self.rounds, len(second))):
            turned = second[turn:] + second[:turn]
            yield [*first[:count], *turned[:count]], count
