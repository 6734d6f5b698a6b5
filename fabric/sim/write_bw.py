"""``ib_write_bw``: a server that waits, a client that writes to it, and the transfer between them."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.sim import write_bw_text as text
from fabric.sim.capacity import MESSAGES_PER_QP_MPPS, Layout
from fabric.sim.flows import Flow, Share
from fabric.sim.hashing import noise_factor, text_hash, word
from fabric.sim.job import Setting
from fabric.sim.nvidia import visible_gpus
from fabric.sim.process import Process
from fabric.sim.rack import Rack
from fabric.sim.site import Site
from fabric.sim.write_bw_options import WriteBwOptions

# How long the steps take, seconds. Choice: perftest opens the device and pins its buffer in well under a second.
LISTEN_S = 0.3
SET_UP_S = 1.0
REFUSE_S = 0.1
RETRY_S = 0.54  # 4.096 us x 2^14 x 8 tries: perftest's default -u 14 (facts of the IB specification)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One end on one platform: *refusal* says why it cannot run there; *before* and *after* frame the addresses."""

    device: str
    endpoint: str
    refusal: str
    listing: str
    lead: str
    before: str
    after: str


class WriteBw:
    """One ``ib_write_bw`` command line."""

    def __init__(self, options: WriteBwOptions, setting: Setting) -> None:
        self.options = options
        self.visible = setting.env.get("CUDA_VISIBLE_DEVICES")
        self.numa = setting.numa
        # With the TCP port: it alone tells clients apart whose servers use different RNICs, whatever starts first.
        told = (options.device, options.peer is None, options.size_bytes, options.duration_s, options.iterations)
        self.hash = text_hash(repr((told, options.port, options.queue_pairs, options.cuda, self.visible, self.numa)))
        self._sides: dict[Layout, Side] = {}

    def side(self, layout: Layout) -> Side:
        """What this command line means on a platform."""
        side = self._sides.get(layout)
        if side is None:
            side = self._sides[layout] = self._found_side(layout)
        return side

    def _found_side(self, layout: Layout) -> Side:
        platform, options = layout.platform, self.options
        first = platform.rnics[0].device if platform.rnics else "mlx5_0"
        device = first if options.device is None else options.device
        rnic = platform.rnic_by_device.get(device)
        gpus = visible_gpus(self.visible, len(platform.gpus))
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
            endpoint = platform.gpus[gpus[options.cuda]].name
        ethernet = platform.link_layer == "ethernet"
        head = text.head(options, device, ethernet=ethernet)
        waiting = text.WAITING if options.peer is None else ""
        listing = "" if options.cuda is None else text.cuda_listing(gpus)
        return Side(device, endpoint, refusal, listing, text.lead(options) + waiting, head, text.columns(options))

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Serve, or connect to a server and write."""
        if self.options.version:
            # What 6.06 prints; it ends with 1 all the same (recorded).
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout="Version: 6.06\n")
            return
        site = process.site
        side = self.side(site.layout)
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
        target = rack.reached(process.site, options.peer)
        server = None if target is None else target.servers.get(options.port)
        if target is None or server is None or not server.ready:
            stderr = text.NO_SERVER % (options.peer, options.port)
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=side.lead, stderr=stderr)
            return
        del target.servers[options.port]  # perftest accepts one client and closes the socket it listened on
        transfer = Transfer(rack, End(self, process, side, rack.chance(process.site, self.hash)), server.end())
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
        self._bits = rack.chance(process.site, job.hash)

    def listen(self, at_s: float) -> None:
        """The set-up is over."""
        if self.process.work is self:
            self.ready = True
            self.rack.timeline.listening(self.process, self.job.options.port, at_s)

    def end(self) -> End:
        """This server as one end of a transfer."""
        return End(self.job, self.process, self.side, self._bits)

    def abandon(self, process: Process, at_s: float) -> None:
        """Killed while waiting: the port is free again."""
        del at_s
        del process.site.servers[self.job.options.port]


class End:
    """One process of a connected pair; *bits* decide its addresses."""

    __slots__ = ("bits", "job", "process", "side")

    def __init__(self, job: WriteBw, process: Process, side: Side, bits: int) -> None:
        self.job = job
        self.process = process
        self.side = side
        self.bits = bits


class Transfer(Flow):
    """A client writing to a server."""

    __slots__ = ("client", "gone", "rack", "server", "stuck")

    def __init__(self, rack: Rack, client: End, server: End) -> None:
        super().__init__((), 0.0)
        self.rack = rack
        self.client = client
        self.server = server
        self.gone = False
        self.stuck = False

    def connected(self, at_s: float) -> None:
        """Both sides have exchanged their addresses: bytes move now, or never."""
        if self.gone or self._gpu_fails(at_s):
            return
        trouble = self._route()
        if trouble == "hanging" or self.stuck:
            self.stuck = True
        elif trouble == "broken":
            self._fail(self.client, at_s + RETRY_S, text.RETRY_EXCEEDED)
            self._fail(self.server, at_s + RETRY_S, text.PEER_GONE)
        else:
            self._move(at_s)

    def _move(self, at_s: float) -> None:
        options = self.client.job.options
        posted_gbps = MESSAGES_PER_QP_MPPS * options.queue_pairs * options.size_bytes * 8 / 1000
        self.ceiling_gbps = min(self.ceiling_gbps, posted_gbps)
        sharing = self.rack.timeline.sharing
        if options.duration_s is not None:
            sharing.begin(self, at_s, seconds=float(options.duration_s))
        else:
            need_gb = options.iterations * options.queue_pairs * options.size_bytes * 8e-9
            sharing.begin(self, at_s, need_gb=need_gb)

    def _route(self) -> str | None:
        """Find the shares and the ceiling; returns what is wrong on the way."""
        client, server = self.client, self.server
        here, there = client.process.site, server.process.site
        source, sink = client.side, server.side
        if here is there:
            path = here.layout.inside(source.device, source.endpoint, sink.device, sink.endpoint)
            self.shares = ((here, path.resources, 1.0),)
            self.ceiling_gbps = here.ceiling_gbps(path)
            return here.trouble(path)
        out = here.layout.sending(source.device, source.endpoint, leaving=True)
        into = there.layout.receiving(sink.device, sink.endpoint, leaving=True)
        shares: tuple[Share, ...] = ((here, out.resources, 1.0), (there, into.resources, 1.0))
        self.shares = shares
        self.ceiling_gbps = min(here.ceiling_gbps(out), there.ceiling_gbps(into))
        troubles = {here.trouble(out), there.trouble(into)}
        return "hanging" if "hanging" in troubles else "broken" if "broken" in troubles else None

    def _gpu_fails(self, at_s: float) -> bool:
        """A side whose GPU does not work ends with CUDA's complaint, and the other side loses its peer."""
        for end, other in ((self.client, self.server), (self.server, self.client)):
            if end.job.options.cuda is None:
                continue
            said = _gpu_complaint(end)
            if said is not None:
                stdout, stderr = said
                self.rack.timeline.exit_later(
                    end.process, at_s + REFUSE_S, status=1, stdout=end.side.lead + stdout, stderr=stderr
                )
                self._fail(other, at_s + 2 * REFUSE_S, text.PEER_GONE)
                return True
        return False

    def _fail(self, end: End, at_s: float, stderr: str) -> None:
        self.rack.timeline.exit_later(end.process, at_s, status=1, stdout=end.side.lead, stderr=stderr)

    def abandon(self, process: Process, at_s: float) -> None:
        """One side was killed: the other fails soon, unless it hangs for a reason of its own."""
        if self.gone:
            return
        self.gone = True
        running = self.live
        if running:
            self.rack.timeline.sharing.end(self, at_s)
        if self.stuck:
            return
        if process is self.server.process and running:
            self._fail(self.client, at_s + RETRY_S, text.RETRY_EXCEEDED)
        else:
            other = self.client if process is self.server.process else self.server
            self._fail(other, at_s + REFUSE_S, text.PEER_GONE)

    def lost(self, site: Site, at_s: float) -> None:
        """A port on its way went down: its queue pairs give up and never come back."""
        del site
        if not self.gone:
            self.abandon(self.server.process, at_s)
            self._fail(self.server, at_s + RETRY_S, text.PEER_GONE)

    def finish(self, at_s: float) -> None:
        """The last byte is there: both sides print the same row and end."""
        self.gone = True
        client, server, timeline = self.client, self.server, self.rack.timeline
        measured_gbps = self.average_gbps() * noise_factor(word(client.bits, 0), self.rack.noise_cv)
        row = text.row(client.job.options, measured_gbps)
        queue_pairs = client.job.options.queue_pairs
        at_client = _addresses(client, queue_pairs)
        at_server = _addresses(server, queue_pairs)
        # The server first: once the client's answer is there, all that the pair needed has ended.
        timeline.exit(server.process, at_s, status=0, stdout=_page(server, at_server, at_client, row))
        timeline.exit(client.process, at_s, status=0, stdout=_page(client, at_client, at_server, row))


def _addresses(end: End, queue_pairs: int) -> list[str]:
    return text.addresses(end.process.site, end.side.device, end.bits, queue_pairs=queue_pairs)


def _page(end: End, local: list[str], remote: list[str], row: str) -> str:
    """All that one side prints when it went well."""
    side, options = end.side, end.job.options
    known = f" local{' local'.join(local)} remote{' remote'.join(remote)}"
    if options.cuda is None:
        return f"{side.lead}{side.before}{known}{side.after}{row}{text.RULE}"
    opened = side.listing + text.cuda_picked(end.process.site, options, end.bits)
    made, freed = text.cuda_buffer(options, end.bits)
    return f"{side.lead}{opened}{made}{side.before}{known}{side.after}{row}{text.RULE}{freed}"


def _gpu_complaint(end: End) -> tuple[str, str] | None:
    """Stdout and stderr of CUDA's refusal, None when the GPU works."""
    side, options, site = end.side, end.job.options, end.process.site
    assert options.cuda is not None
    if not side.endpoint or site.trouble_of(side.endpoint) == "absent":
        return "initializing CUDA\n", text.NO_GPU % options.cuda + text.NO_RESOURCES
    if site.trouble_of(side.endpoint) == "broken":
        picked = side.listing + text.cuda_picked(site, options, end.bits)
        return picked + "cuCtxCreate() error=214\n", text.NO_RESOURCES  # 214: CUDA_ERROR_ECC_UNCORRECTABLE
    return None
