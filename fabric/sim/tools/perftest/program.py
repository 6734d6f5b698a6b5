"""``ib_write_bw``: a server that waits, a client that writes to it, and the transfer between them."""

from __future__ import annotations

from typing import ClassVar

from fabric.model.topology import Gpu
from fabric.sim.hashing import text_hash
from fabric.sim.hosts.capacity import Layout
from fabric.sim.hosts.hosts import visible_gpus
from fabric.sim.hosts.site import Site
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
        return Side(device, endpoint, refusal, listing, text.lead(options) + waiting, head, text.columns(options))

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
