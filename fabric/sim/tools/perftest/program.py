"""``ib_write_bw``, one way or both, and ``ib_write_lat``: a server that waits, a client, and what is between them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fabric.model.topology import Gpu
from fabric.sim.hashing import text_hash
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY, Layout
from fabric.sim.hosts.hosts import visible_gpus
from fabric.sim.hosts.site import Flow, Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.tools.call import Surroundings
from fabric.sim.tools.perftest import text
from fabric.sim.tools.perftest.text import WriteBwOptions
from fabric.sim.tools.perftest.transfer import REFUSE_S, PairEnd, Side, Transfer

# How long the steps take, seconds. Choice: perftest opens the device and pins its buffer in well under a second.
LISTEN_S = 0.3
SET_UP_S = 1.0


class WriteBw:
    """One ``ib_write_bw`` command line; *transfer* is what happens between its two sides."""

    transfer: ClassVar[type[Transfer]] = Transfer

    def __init__(self, options: WriteBwOptions, setting: Surroundings) -> None:
        self.options = options
        self.visible = setting.env.get("CUDA_VISIBLE_DEVICES")
        self.numa = setting.numa
        # With the TCP port: it alone tells clients apart whose servers use different RNICs, whatever starts first.
        told = (options.device, options.peer is None, options.size_bytes, options.duration_s, options.iterations)
        self.hash = text_hash(repr((told, options.port, options.queue_pairs, options.cuda, self.visible, self.numa)))
        self._sides: dict[tuple[Layout, tuple[int, ...]], Side] = {}

    def side(self, site: Site) -> Side:
        """What this command line means on a host of this platform, with the GPUs that are there."""
        there = site.present_gpus()
        whole = there is site.layout.platform.gpus  # nearly always: then no GPU is looked at
        kind = (site.layout, () if whole else (-1, *(gpu.index for gpu in there)))
        side = self._sides.get(kind)
        if side is None:
            side = self._sides[kind] = self._found_side(site.layout, there)
        return side

    def _found_side(self, layout: Layout, there: tuple[Gpu, ...]) -> Side:
        platform, options = layout.platform, self.options
        first = platform.rnics[0].device if platform.rnics else "mlx5_0"
        device = first if options.device is None else options.device
        rnic = platform.rnic_by_device.get(device)
        gpus = visible_gpus(self.visible, len(there))
        refusal, endpoint = "", ""
        if self.numa is not None and self.numa >= platform.numa_nodes:
            refusal = f"libnuma: Warning: node argument {self.numa} is out of range\n\n<{self.numa}> is invalid\n"
        elif rnic is None:
            refusal = text.NO_DEVICE % device
        elif options.ib_port != rnic.port:
            refusal = text.PORT_DOWN % options.ib_port
        elif options.cuda is None:
            endpoint = f"numa{rnic.numa if self.numa is None else self.numa}"
        elif options.cuda < len(gpus):
            endpoint = there[gpus[options.cuda]].name
        ethernet = platform.link_layer == "ethernet"
        head = text.head(options, device, ethernet=ethernet)
        waiting = text.WAITING if options.peer is None else ""
        listing = "" if options.cuda is None else text.cuda_listing(tuple(there[number].index for number in gpus))
        return Side(device, endpoint, refusal, listing, text.lead(options) + waiting, head, text.COLUMNS)

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Serve, or connect to a server and write."""
        if self.options.version:
            # What 6.06 prints; it ends with 1 all the same (recorded).
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout="Version: 6.06\n")
            return
        site = process.site
        side = self.side(site)
        refusal = side.refusal or text.port_refusal(site, side.device, self.options)
        if refusal:
            stdout = text.lead(self.options)
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=stdout, stderr=refusal)
        elif self.options.peer is None:
            self._serve(rack, process, side, at_s)
        else:
            self._connect(rack, process, side, at_s)

    def _serve(self, rack: Rack, process: Process, side: Side, at_s: float) -> None:
        port = self.options.port
        servers = process.site.servers
        if port in servers:
            stderr = text.PORT_TAKEN % port + text.NO_SOCKET
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=side.lead, stderr=stderr)
            return
        server = Server(self, rack, process, side)
        servers[port] = server
        process.work = server
        rack.timeline.at(at_s + LISTEN_S, server.listen)

    def _connect(self, rack: Rack, process: Process, side: Side, at_s: float) -> None:
        options = self.options
        assert options.peer is not None
        target = rack.hosts.reached(process.site, options.peer)
        server = None if target is None else target.servers.get(options.port)
        if target is None or not isinstance(server, Server) or not server.ready:
            stderr = text.NO_SERVER % (options.peer, options.port)
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=side.lead, stderr=stderr)
            return
        del target.servers[options.port]  # perftest accepts one client and closes the socket it listened on
        transfer = self.transfer(
            rack, PairEnd(self.options, process, side, rack.hosts.chance(process.site, self.hash)), server.end()
        )
        process.work = server.process.work = transfer
        rack.timeline.at(at_s + SET_UP_S, transfer.connected)


class Server:
    """A process that listens, or is about to."""

    __slots__ = ("_bits", "job", "process", "rack", "ready", "side")

    def __init__(self, job: WriteBw, rack: Rack, process: Process, side: Side) -> None:
        self.job = job
        self.rack = rack
        self.process = process
        self.side = side
        self.ready = False
        self._bits = rack.hosts.chance(process.site, job.hash)

    def listen(self, at_s: float) -> None:
        """The set-up is over."""
        if self.process.work is self:
            self.ready = True
            self.rack.timeline.listening(self.process, self.job.options.port, at_s)

    def end(self) -> PairEnd:
        """This server as one end of a transfer."""
        return PairEnd(self.job.options, self.process, self.side, self._bits)

    def abandon(self, process: Process, at_s: float) -> None:
        """Killed while waiting: the port is free again."""
        del at_s
        del process.site.servers[self.job.options.port]


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
