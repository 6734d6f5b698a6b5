"""``ib_write_lat``, and ``ib_write_bw`` in both directions: as ``ib_write_bw``, but for what is moved and printed."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fabric.model.topology import Gpu
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY, Layout
from fabric.sim.hosts.site import Flow
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.tools.perftest import text
from fabric.sim.tools.perftest.program import WriteBw
from fabric.sim.tools.perftest.transfer import PairEnd, Side, Transfer

# A choice: two RNICs and one switch of NDR take about this long for a small message, a way over spines some more.
UNDER_A_LEAF_US, ACROSS_LEAVES_US = 1.9, 2.9
_LEAST_S = 0.01

_COLUMNS = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
)


class _PingPong(Transfer):
    """Messages there and back: the slower the path carries bytes, the longer each takes."""

    __slots__ = ()

    def _move(self, at_s: float) -> None:
        self.ceiling_gbps *= self._left(at_s)
        seconds = self.client.options.iterations * 2e-6 * self._usual_us()
        self.rack.timeline.sharing.begin(self, at_s, seconds=max(_LEAST_S, seconds))

    def _usual_us(self) -> float:
        return UNDER_A_LEAF_US if self.ring is None else ACROSS_LEAVES_US

    def row(self, noise: float) -> str:
        """Typical, and round it what a quiet fabric shows: a long tail that is a few times the median."""
        ends = (self.client, self.server)
        lines = [end.process.site.layout.platform.rnic_by_device[end.side.device].line_rate_gbps for end in ends]
        slower = max(1.0, min(lines) * RNIC_EFFICIENCY / max(self.average_gbps(), 1e-3))
        typical = self._usual_us() * slower * noise
        options = self.client.options
        numbers = (0.97, 4.1, 1.0, 1.01, 0.04, 1.08, 1.6)
        cells = "  ".join(f"{typical * share:<13.2f}" for share in numbers)
        return f" {options.size_bytes:<7d} {options.iterations:<12d} {cells}\n"


class WriteLat(WriteBw):
    """One ``ib_write_lat`` command line."""

    transfer: ClassVar[type[Transfer]] = _PingPong

    def _found_side(self, layout: Layout, there: tuple[Gpu, ...]) -> Side:
        side = super()._found_side(layout, there)
        before = side.before.replace("RDMA_Write BW Test", "RDMA_Write Latency Test")
        return replace(side, before=before, after=text.RULE + _COLUMNS)


class _Back(Flow):
    """The bytes of the other direction, for as long as those of the first."""

    __slots__ = ()

    def finish(self, at_s: float) -> None:
        """Its other half tells of both."""


class _BothWays(Transfer):
    """Two sides that write to each other; the sum is printed."""

    __slots__ = ("_back",)

    def __init__(self, rack: Rack, client: PairEnd, server: PairEnd) -> None:
        super().__init__(rack, client, server)
        self._back: Flow | None = None

    def _move(self, at_s: float) -> None:
        other = Transfer(self.rack, self.server, self.client)
        other._route()
        whole_gbps = self.ceiling_gbps
        super()._move(at_s)
        left = self.ceiling_gbps / whole_gbps if whole_gbps else 0.0
        self._back = _Back(other.shares, other.ceiling_gbps * left, ring=other.ring)
        seconds = self.client.options.duration_s or 1
        self.rack.timeline.sharing.begin(self._back, at_s, seconds=float(seconds))

    def abandon(self, process: Process, at_s: float) -> None:
        """Neither direction goes on."""
        if self._back is not None and self._back.live:
            self.rack.timeline.sharing.end(self._back, at_s)
        super().abandon(process, at_s)

    def row(self, noise: float) -> str:
        """The sum; iterations are those of one side."""
        back_gbps = 0.0 if self._back is None else self._back.average_gbps()
        return text.row(self.client.options, (self.average_gbps() + back_gbps) * noise)


class WriteBothWays(WriteBw):
    """One ``ib_write_bw -b`` command line."""

    transfer: ClassVar[type[Transfer]] = _BothWays

    def _found_side(self, layout: Layout, there: tuple[Gpu, ...]) -> Side:
        side = super()._found_side(layout, there)
        return replace(side, before=side.before.replace("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test"))
