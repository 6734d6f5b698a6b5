"""Several hosts send to one RNIC at once (one ib_write_bw and server port per sender): does it get its line rate?

Each sender alone would fill the line, so each must be slowed down to its share.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.model.fields.scalars import Whole
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.at_once import MOST_SENDERS, AtOnceSpec, Draw, Flows
from fabric.probes.pairwise import Plane
from fabric.probes.shapes import Name

Many = Annotated[
    tuple[Annotated[int, Whole(1, MOST_SENDERS)], ...],
    Field(min_length=1, max_length=16, description="How many send at once, one measurement each."),
]


class IncastSpec(AtOnceSpec):
    """Several hosts send to one RNIC at once; the sum must be its line rate, evenly shared (ib_write_bw)."""

    kind: ClassVar[str] = "incast"
    needs: ClassVar[str] = "two other hosts in the run with an RNIC of the same rail and line rate"

    name: Name = kind
    senders: Many = (2, 4, 8, 16)
    receivers: Annotated[int, Whole(1, 64)] = 1
    """How many hosts of each rail receive, in turn."""

    def draws(self, plane: Plane, topology: Topology) -> Iterator[Draw]:
        """Yield every number of senders to every receiver, with senders taken from all leaves in turn."""
        for number in range(min(self.receivers, len(plane.hosts))):
            receiver = plane.hosts[number * len(plane.hosts) // self.receivers]
            others = [host for host in in_turn(plane) if host != receiver]
            if len(others) < 2:
                continue
            for count in sorted({min(count, len(others)) for count in self.senders}):
                yield [(host, receiver) for host in others[:count]], receiver, f"n{count}", {}

    @classmethod
    def order(cls, flows: Flows) -> tuple[str, ...]:
        """Return the senders, then the receiver."""
        return (*(sender for sender, _ in flows), flows[0][1])

    @classmethod
    def flows(cls, probe: Probe) -> list[tuple[str, str]]:
        """Return a flow from every other host to the last."""
        return [(host, probe.hosts[-1]) for host in probe.hosts[:-1]]


def in_turn(plane: Plane) -> list[str]:
    """Return the hosts of a plane, taken from its leaves in turn."""
    return [host for turn in zip_longest(*plane.leaves.values()) for host in turn if host is not None]
