"""One flow alone, and beside an incast to another RNIC: does it keep its bandwidth?

The victim's sender is under the leaf of the incast's first senders, its receiver under the leaf of the incast's
receiver, so both cross the same switches. If they share a port, which the routes decide, and the fabric pauses that
port instead of slowing down the senders that cause the congestion, the victim waits with them (head-of-line blocking).
It is judged only against itself. Each of N senders has 1/N of a line; what a few of these on its cable take from the
victim is their fair share.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from fabric.model.probe import Measurement, Probe
from fabric.model.topology import Topology
from fabric.probes.at_once import AtOnceSpec, Draw, Flows, Least
from fabric.probes.incast import Many
from fabric.probes.pairwise import Plane
from fabric.probes.shapes import Name, int_param


class VictimSpec(AtOnceSpec):
    """A flow alone, then beside an incast to another RNIC; it must keep its bandwidth (ib_write_bw)."""

    kind: ClassVar[str] = "victim"
    needs: ClassVar[str] = "two hosts under its leaf, and two under another, with an RNIC of the same rail"

    name: Name = kind
    senders: Many = (8,)
    at_least: Least = 0.5
    """The least of its bandwidth alone (alone: of its line) that it must keep."""

    def draws(self, plane: Plane, topology: Topology) -> Iterator[Draw]:
        """Yield the flow alone, then beside each number of senders, if a plane has two leaves of two hosts."""
        full = [group for group in plane.leaves.values() if len(group) > 1]
        if len(full) < 2:
            return
        (sender, *near), (receiver, other, *_) = full[0], full[-1]
        far = [host for group in plane.leaves.values() if group not in (full[0], full[-1]) for host in group]
        others = [*near, *far]
        for count in (0, *sorted({min(count, len(others)) for count in self.senders})):
            flows = [(sender, other), *((host, receiver) for host in others[:count])]
            yield flows, f"{sender}+{other}", f"n{count}", {}

    @classmethod
    def order(cls, flows: Flows) -> tuple[str, ...]:
        """Return the victim's two hosts, then the incast's senders and its receiver."""
        return (*flows[0], *(sender for sender, _ in flows[1:]), *{receiver for _, receiver in flows[1:]})

    @classmethod
    def flows(cls, probe: Probe) -> list[tuple[str, str]]:
        """Return the victim's flow first, then the incast's."""
        return [(probe.hosts[0], probe.hosts[1]), *((host, probe.hosts[-1]) for host in probe.hosts[2:-1])]

    @classmethod
    def measured(cls, probe: Probe, gbps: Sequence[float]) -> Iterator[Measurement]:
        """Yield only the victim's bandwidth."""
        yield Measurement(probe.probe_id, "bandwidth", gbps[0], "Gb/s", int_param(probe, "size_bytes"))
