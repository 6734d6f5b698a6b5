"""``ib_write_bw``, one way or both, and ``ib_write_lat``: a waiting server, a client, and the transfer between them."""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar

from fabric.model.topology import Gpu, Rnic
from fabric.sim import page
from fabric.sim.hashing import mix64, text_hash
from fabric.sim.hosts import GPU_MODELS, pci_bus, visible_gpus
from fabric.sim.hosts.capacity import MESSAGES_PER_QP_MPPS, RNIC_EFFICIENCY, Layout
from fabric.sim.hosts.site import Flow, Ring, Site
from fabric.sim.hosts.timeline import Listening, Process
from fabric.sim.rack import Rack
from fabric.sim.tools.call import Surroundings
from fabric.sim.tools.perftest import text
from fabric.sim.tools.perftest.text import WriteBwOptions

REFUSE_S = 0.1
RETRY_S = 0.54  # 4.096 us x 2^14 x 8 tries: perftest's default -u 14 (facts of the IB specification)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """
    One end on one platform: *refusal* says why it cannot run there.

    *lead* is printed before anything else, *picked* once it has picked its GPU. In *picked* and in the whole *page*
    some fields are left open, which each transfer fills in.
    """

    device: str
    endpoint: str
    refusal: str
    lead: str
    picked: str
    page: str


@dataclass(slots=True, eq=False)
class PairEnd:
    """
    One process of a pair; *bits* decide its addresses.

    A server is the work of its process until a client comes: it listens, or is about to.
    """

    options: WriteBwOptions
    process: Process
    side: Side
    bits: int
    listens: bool = False

    @property
    def site(self) -> Site:
        """Return its host."""
        return self.process.site

    @property
    def draw(self) -> int:
        """Return what a hash tells its packets from others by: the flow label where it has one (rdma_cm sets none)."""
        label = 0 if self.options.rdma_cm else self.options.flow_label
        return mix64(label) if label else self.bits

    @property
    def rnic(self) -> Rnic:
        """Return the RNIC that it sends or receives with."""
        return self.site.layout.platform.rnic_by_device[self.side.device]

    def listen(self, rack: Rack, at_s: float) -> None:
        """Begin to listen: the set-up is over."""
        if self.process.work is self:
            self.listens = True
            rack.timeline.happened.append(Listening(self.process.pid, self.options.port, at_s))

    def abandon(self, process: Process, at_s: float) -> None:
        """Free the port: the process was killed while it waited."""
        del at_s
        del process.site.servers[self.options.port]


class Transfer(Flow):
    """A client writing to a server."""

    program: ClassVar[str] = "ib_write_bw"
    title: ClassVar[str] = "RDMA_Write BW"
    columns: ClassVar[str] = text.COLUMNS

    def __init__(self, rack: Rack, client: PairEnd, server: PairEnd) -> None:
        super().__init__((), 0.0)
        self.rack = rack
        self.client = client
        self.server = server
        self.gone = False
        self.stuck = False

    def connected(self, at_s: float) -> None:
        """Start the transfer: both sides have exchanged their addresses, and bytes move now, or never."""
        if self.gone or self._gpu_fails(at_s):
            return
        trouble = self._route()
        if trouble == "hanging":
            self.stuck = True
        elif trouble == "broken":
            self._give_up(at_s + RETRY_S)
        else:
            self._move(at_s)

    def _move(self, at_s: float) -> None:
        options = self.client.options
        posted_gbps = MESSAGES_PER_QP_MPPS * options.queue_pairs * options.size_bytes * 8 / 1000
        self.ceiling_gbps = min(self.ceiling_gbps, posted_gbps) * self._left(at_s)
        sharing = self.rack.timeline.sharing
        if options.duration_s is not None:
            sharing.begin(self, at_s, seconds=float(options.duration_s))
        else:
            need_gb = options.iterations * options.queue_pairs * options.size_bytes * 8e-9
            sharing.begin(self, at_s, need_gb=need_gb)

    def _left(self, at_s: float) -> float:
        """Return the share that faults that each transfer feels by itself leave to it."""
        ends = [(end.site.host.name, end.side.device) for end in (self.client, self.server)]
        inside = self.client.site is self.server.site
        return self.rack.passing.left(ends, self.client.bits, at_s, inside=inside)

    def _route(self) -> str | None:
        """Find the shares and the ceiling; return what is wrong on the way."""
        here, there = self.client.site, self.server.site
        source, sink = self.client.side, self.server.side
        ring = self._beyond_leaf()
        ways = () if ring is None else (ring, self._answers(ring))
        lost = any(self.rack.above.dead_edge(way) is not None for way in ways)
        self.ring, self.queued = ring, ring is not None and here is not there and self.rack.above.queued
        if here is there:
            paths = [(here, here.layout.inside(source.device, source.endpoint, sink.device, sink.endpoint))]
        else:
            paths = [(here, here.layout.sending(source.device, source.endpoint, leaving=True))]
            paths.append((there, there.layout.receiving(sink.device, sink.endpoint, leaving=True)))
        self.shares = tuple((site, path.resources, 1.0) for site, path in paths)
        self.ceiling_gbps = min(site.ceiling_gbps(path) for site, path in paths)
        troubles = {site.trouble(path) for site, path in paths}
        return "hanging" if "hanging" in troubles else "broken" if lost or "broken" in troubles else None

    def _beyond_leaf(self) -> Ring | None:
        """
        Return its way over the uplinks; None where both RNICs are on one leaf without queues, or nothing is modelled.
        """
        client, server = self.client, self.server
        leaves = [end.site.host.leaf(end.rnic.rail) for end in (client, server)]
        waits = self.rack.above.queued and client.site is not server.site  # in the queue of a leaf, too
        if not all(leaves) or (leaves[0] == leaves[1] and not waits):
            return None
        ring = Ring(
            hosts=(client.site.host.name, server.site.host.name),
            rails=(client.rnic.rail,),
            bus_ratio=RNIC_EFFICIENCY,
            one_way=True,
            to_rails=(server.rnic.rail,),
            draw=client.draw,
            qps=1 if client.options.flow_label else client.options.queue_pairs,
        )
        return self.rack.above.ring(ring)

    def _answers(self, ring: Ring) -> Ring:
        """Return the way back of the acknowledgements: a hash draws it separately, and without it nothing goes on."""
        here, there = ring.hosts
        return replace(ring, hosts=(there, here), rails=ring.to_rails, to_rails=ring.rails, draw=self.server.draw)

    def _gpu_fails(self, at_s: float) -> bool:
        """End both sides if the GPU of one does not work: that side prints CUDA's error, the other loses its peer."""
        for end, other in ((self.client, self.server), (self.server, self.client)):
            stdout, why = "", "bad GPU"
            if end.options.cuda is not None and not end.side.endpoint:
                stdout, why = f"{end.side.lead}initializing CUDA\n", "no GPU"
            elif end.options.cuda is not None and end.site.trouble_of(end.side.endpoint) == "broken":
                stdout = f"{end.side.picked.format(pid=_pid(end))}cuCtxCreate() error=214\n"  # an ECC error
            if stdout:
                stderr = text.failure(why, number=end.options.cuda)
                self.rack.timeline.exit_later(end.process, at_s + REFUSE_S, status=1, stdout=stdout, stderr=stderr)
                self._fail(other, at_s + 2 * REFUSE_S, "peer gone")
                return True
        return False

    def _give_up(self, at_s: float) -> None:
        """Fail both sides: the client's retries have run out."""
        self._fail(self.client, at_s, "retries exceeded")
        self._fail(self.server, at_s, "peer gone")

    def _fail(self, end: PairEnd, at_s: float, why: str) -> None:
        stderr = text.failure(why)
        self.rack.timeline.exit_later(end.process, at_s, status=1, stdout=end.side.lead, stderr=stderr)

    def abandon(self, process: Process, at_s: float) -> None:
        """End the transfer after one side was killed: the other fails soon, unless it hangs for a reason of its own."""
        if self.gone:
            return
        self.gone = True
        running = self.live
        if running:
            self.rack.timeline.sharing.end(self, at_s)
        if self.stuck:
            return
        if process is self.server.process and running:
            self._fail(self.client, at_s + RETRY_S, "retries exceeded")
        else:
            other = self.client if process is self.server.process else self.server
            self._fail(other, at_s + REFUSE_S, "peer gone")

    def lost(self, site: Site, at_s: float) -> None:
        """End the transfer: a port on its way went down, and its queue pairs give up for good."""
        del site
        if not self.gone:
            self.abandon(self.server.process, at_s)
            self._fail(self.server, at_s + RETRY_S, "peer gone")

    def row(self, noise: float) -> str:
        """Return the row that both sides print."""
        return text.row(self.client.options, self.average_gbps() * noise)

    def finish(self, at_s: float) -> None:
        """End the transfer: both sides print the same row, unless packets were lost for good."""
        self.gone = True
        client, server = self.client, self.server
        leaves = client.side.device != server.side.device or client.site is not server.site
        share = self.average_gbps() / self.ceiling_gbps
        if leaves and self.rack.drops(client.site.layout.platform, client.options.traffic_class, share):
            self._give_up(at_s)
            return
        row = self.row(self.rack.noise.factor(client.bits, 0, [client.site.host.name, server.site.host.name]))
        # The server ends first: once the client's answer is there, everything that the pair needed has ended.
        for end, other in ((server, client), (client, server)):
            known = "".join(
                text.addresses(whose, one.site, one.side.device, one.bits, queue_pairs=client.options.queue_pairs)
                for whose, one in (("local", end), ("remote", other))
            )
            self.rack.timeline.exit(end.process, at_s, status=0, stdout=_page(end, known, row))


def _page(end: PairEnd, known: str, row: str) -> str:
    """Return all that one side prints when it went well; *known*: the addresses."""
    offset = end.bits & 0xFFFFF000 if end.options.use_rocm is not None else (end.bits >> 20 & 0xFFFFF) << 21
    return end.side.page.format(known=known, row=row, pid=_pid(end), place=0x7F0000000000 + offset)


def _pid(end: PairEnd) -> int:
    return 4096 + end.bits % 4190000


# How long the steps take, seconds. Choice: perftest opens the device and pins its buffer in well under a second.
LISTEN_S = 0.3
SET_UP_S = 1.0


class WriteBw:
    """One command line; *transfer* is the class of the transfer between its two sides."""

    def __init__(self, options: WriteBwOptions, setting: Surroundings, transfer: type[Transfer] = Transfer) -> None:
        self.options, self.transfer = options, transfer
        self.visible = setting.env.get("CUDA_VISIBLE_DEVICES")
        self.numa, self.cpus_bound = setting.numa, setting.cpus_bound
        # The hash has the TCP port: it alone tells clients apart whose servers use different RNICs, in whatever order
        # they start.
        asked = (options.device, options.peer is None, options.size_bytes, options.duration_s, options.iterations)
        self.hash = text_hash(repr((asked, options.port, options.queue_pairs, options.cuda, self.visible, self.numa)))
        self._side = cache(self._found_side)

    def _found_side(self, layout: Layout, there: tuple[Gpu, ...]) -> Side:
        """Return the side of this command line on a host of this platform, with the GPUs that are there."""
        platform, options = layout.platform, self.options
        first = platform.rnics[0].device if platform.rnics else "mlx5_0"
        device = first if options.device is None else options.device
        rnic = platform.rnic_by_device.get(device)
        gpus = visible_gpus(self.visible, there)
        refusal, endpoint, node = "", "", self._node(rnic)
        if self.numa is not None and self.numa >= platform.numa_nodes:
            refusal = f"libnuma: Warning: node argument {self.numa} is out of range\n\n<{self.numa}> is invalid\n"
        elif rnic is None:
            refusal = text.failure("no device", device=device)
        elif options.ib_port != rnic.port:
            refusal = text.failure("port down", number=options.ib_port)
        elif options.cuda is None:
            endpoint = f"numa{node}"
        elif options.cuda < len(gpus):
            endpoint = gpus[options.cuda].name
        picked = lead = page("ib_write_bw-lead", options=options, waits=options.peer is None)
        model, bus = GPU_MODELS[layout.generation], ""
        if options.cuda is not None:
            buses, bus = [pci_bus(gpu.index) for gpu in gpus], pci_bus(options.cuda)
            picked += page("ib_write_bw-cuda", options=options, buses=buses, model=model)
        words = {"device": device, "options": options, "ethernet": platform.link_layer == "ethernet", "numa": node}
        words |= {"title": self.transfer.title, "columns": self.transfer.columns, "rule": text.RULE}
        whole = page("ib_write_bw", **words, bus=bus, model=model)
        return Side(device, endpoint, refusal, lead, picked, (picked if options.use_rocm is None else lead) + whole)

    def _node(self, rnic: Rnic | None) -> int | None:
        """
        Return the node that it runs on and has its buffers on.

        Since 26.04.17 it goes to the RNIC's own node, whatever its memory was bound to, unless it may not run on all
        CPUs (perftest 26.04.17, perftest_parameters.c:4087, _resources.c:1205).
        """
        if self.numa is not None and self.cpus_bound:
            return self.numa
        return None if rnic is None else rnic.numa

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Serve, or connect to a server and write."""
        options, site, rocm = self.options, process.site, self.options.use_rocm is not None
        fails = partial(rack.timeline.exit_later, process, at_s + REFUSE_S, status=1)
        if options.cuda is not None and ("no_cuda" in rack.mock.site or rocm != site.layout.platform.amd):
            reason = f"unrecognized option '--use_{'rocm' if rocm else 'cuda'}'"
            fails(stderr=text.failure("usage", program=self.transfer.program, reason=reason))
            return  # options are read one by one
        if options.version:
            fails(stdout="Version: 6.29\n")  # exits 1 all the same (recorded of 6.06, and of 6.29)
            return
        side = self._side(site.layout, site.present_gpus())
        refusal = side.refusal
        if not refusal and (trouble := site.trouble_of(side.device)) in ("absent", "broken"):
            why = "no device" if trouble == "absent" else "port down"
            refusal = text.failure(why, device=side.device, number=options.ib_port)
        if not refusal and options.cuda is not None and "dmabuf" in rack.mock.site and not options.dmabuf:
            refusal = text.failure("no memory region")
        if refusal:
            fails(stdout=page("ib_write_bw-lead", options=options, waits=False), stderr=refusal)
        elif options.peer is None:
            self._serve(rack, process, side, at_s)
        else:
            self._connect(rack, process, side, at_s)

    def _serve(self, rack: Rack, process: Process, side: Side, at_s: float) -> None:
        port = self.options.port
        servers = process.site.servers
        if port in servers:
            stderr = text.failure("port taken", number=port)
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=side.lead, stderr=stderr)
            return
        server = PairEnd(self.options, process, side, rack.hosts.chance(process.site, self.hash))
        servers[port] = server
        process.work = server
        rack.timeline.at(at_s + LISTEN_S, partial(server.listen, rack))

    def _connect(self, rack: Rack, process: Process, side: Side, at_s: float) -> None:
        options = self.options
        assert options.peer is not None
        target = rack.hosts.reached(process.site, options.peer)
        server = None if target is None else target.servers.get(options.port)
        there = isinstance(server, PairEnd) and server.listens
        bits = rack.hosts.chance(process.site, self.hash) if there else 0
        if not isinstance(server, PairEnd) or not there or rack.noise.is_lost(bits):
            stderr = text.failure("no server", peer=options.peer, number=options.port)
            rack.timeline.exit_later(process, at_s + REFUSE_S, status=1, stdout=side.lead, stderr=stderr)
            return
        del server.site.servers[options.port]  # perftest accepts one client and closes the listening socket
        transfer = self.transfer(rack, PairEnd(self.options, process, side, bits), server)
        process.work = server.process.work = transfer
        rack.timeline.at(at_s + SET_UP_S, transfer.connected)


# A choice: two RNICs and one switch of NDR take about this long for a small message, a way over spines some more.
UNDER_A_LEAF_US, ACROSS_LEAVES_US = 1.9, 2.9
_LEAST_S = 0.01

_COLUMNS = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
)


class PingPong(Transfer):
    """Messages there and back (``ib_write_lat``): the slower the path carries bytes, the longer each takes."""

    program: ClassVar[str] = "ib_write_lat"
    title: ClassVar[str] = "RDMA_Write Latency"
    columns: ClassVar[str] = text.RULE + _COLUMNS

    def _move(self, at_s: float) -> None:
        self.ceiling_gbps *= self._left(at_s)
        seconds = self.client.options.iterations * 2e-6 * self._usual_us()
        self.rack.timeline.sharing.begin(self, at_s, seconds=max(_LEAST_S, seconds))

    def _usual_us(self) -> float:
        return UNDER_A_LEAF_US if self.ring is None else ACROSS_LEAVES_US

    def row(self, noise: float) -> str:
        """
        Return a row around the typical time with the spread of a quiet fabric: a tail that is a few times the median.
        """
        line_gbps = min(self.client.rnic.line_rate_gbps, self.server.rnic.line_rate_gbps)
        slower = max(1.0, line_gbps * RNIC_EFFICIENCY / max(self.average_gbps(), 1e-3))
        typical = self._usual_us() * slower * noise
        options = self.client.options
        numbers = (0.97, 4.1, 1.0, 1.01, 0.04, 1.08, 1.6)
        cells = "  ".join(f"{typical * share:<13.2f}" for share in numbers)
        return f" {options.size_bytes:<7d} {options.iterations:<12d} {cells}\n"


class BothWays(Transfer):
    """Two sides that write to each other (``ib_write_bw -b``); the sum is printed."""

    title: ClassVar[str] = "RDMA_Write Bidirectional BW"
    _back: Flow | None = None  # the other direction, which this one includes in its row

    def _move(self, at_s: float) -> None:
        other = Transfer(self.rack, self.server, self.client)
        other._route()
        whole_gbps = self.ceiling_gbps
        super()._move(at_s)
        left = self.ceiling_gbps / whole_gbps if whole_gbps else 0.0
        self._back = Flow(other.shares, other.ceiling_gbps * left, ring=other.ring)
        seconds = self.client.options.duration_s or 1
        self.rack.timeline.sharing.begin(self._back, at_s, seconds=float(seconds))

    def abandon(self, process: Process, at_s: float) -> None:
        """Stop both directions."""
        if self._back is not None and self._back.live:
            self.rack.timeline.sharing.end(self._back, at_s)
        super().abandon(process, at_s)

    def row(self, noise: float) -> str:
        """Return the row of the sum; iterations are those of one side."""
        back_gbps = 0.0 if self._back is None else self._back.average_gbps()
        return text.row(self.client.options, (self.average_gbps() + back_gbps) * noise)
