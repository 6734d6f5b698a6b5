"""The bytes between the two sides of ``ib_write_bw``: by which parts and links, how fast, and what each side prints."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.sim.hashing import noise_factor, word
from fabric.sim.hosts.capacity import MESSAGES_PER_QP_MPPS, RNIC_EFFICIENCY
from fabric.sim.hosts.site import Flow, Share, Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.routing import Ring
from fabric.sim.tools.perftest import text
from fabric.sim.tools.perftest.text import WriteBwOptions

REFUSE_S = 0.1
RETRY_S = 0.54  # 4.096 us x 2^14 x 8 tries: perftest's default -u 14 (facts of the IB specification)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """
    One end on one platform: *refusal* says why it cannot run there; *before* and *after* frame the addresses.

    *listing* are the GPUs that it sees, *lead* what is said before anything else.
    """

    device: str
    endpoint: str
    refusal: str
    listing: str
    lead: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, eq=False)
class PairEnd:
    """One process of a connected pair; *bits* decide its addresses."""

    options: WriteBwOptions
    process: Process
    side: Side
    bits: int


class Transfer(Flow):
    """A client writing to a server."""

    __slots__ = ("client", "gone", "rack", "server", "stuck")

    def __init__(self, rack: Rack, client: PairEnd, server: PairEnd) -> None:
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
        """The share that an RNIC or a cable with a whim leaves to it."""
        sides = (self.client, self.server)
        ends = [(end.process.site.host.name, end.side.device) for end in sides]
        inside = self.client.process.site is self.server.process.site
        return self.rack.whims.left(ends, self.client.bits, at_s, inside=inside)

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
        self.ring = self._beyond_leaf(here, there)
        troubles = {here.trouble(out), there.trouble(into)}
        if self.rack.above.dead_edge(self.ring) is not None:
            troubles.add("broken")
        return "hanging" if "hanging" in troubles else "broken" if "broken" in troubles else None

    def _beyond_leaf(self, here: Site, there: Site) -> Ring | None:
        """Its way over the uplinks; None where both RNICs are on one leaf, or nothing above is modelled."""
        ends = ((here, self.client.side), (there, self.server.side))
        rails = [site.layout.platform.rnic_by_device[side.device].rail for site, side in ends]
        leaves = [site.host.leaves[rail : rail + 1] for (site, _), rail in zip(ends, rails, strict=True)]
        if rails[0] != rails[1] or leaves[0] == leaves[1] or not all(leaves):
            return None
        hosts = (here.host.name, there.host.name)
        return self.rack.above.ring(Ring(hosts, (rails[0],), RNIC_EFFICIENCY, one_way=True))

    def _gpu_fails(self, at_s: float) -> bool:
        """A side whose GPU does not work ends with CUDA's complaint, and the other side loses its peer."""
        for end, other in ((self.client, self.server), (self.server, self.client)):
            if end.options.cuda is None:
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

    def _fail(self, end: PairEnd, at_s: float, stderr: str) -> None:
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

    def row(self, noise: float) -> str:
        """What both sides print of it."""
        return text.row(self.client.options, self.average_gbps() * noise)

    def finish(self, at_s: float) -> None:
        """The last byte is there: both sides print the same row and end."""
        self.gone = True
        client, server, timeline = self.client, self.server, self.rack.timeline
        row = self.row(noise_factor(word(client.bits, 0), self.rack.noise_cv))
        queue_pairs = client.options.queue_pairs
        at_client = _addresses(client, queue_pairs)
        at_server = _addresses(server, queue_pairs)
        # The server first: once the client's answer is there, all that the pair needed has ended.
        timeline.exit(server.process, at_s, status=0, stdout=_page(server, at_server, at_client, row))
        timeline.exit(client.process, at_s, status=0, stdout=_page(client, at_client, at_server, row))


def _addresses(end: PairEnd, queue_pairs: int) -> list[str]:
    return text.addresses(end.process.site, end.side.device, end.bits, queue_pairs=queue_pairs)


def _page(end: PairEnd, local: list[str], remote: list[str], row: str) -> str:
    """All that one side prints when it went well."""
    side, options = end.side, end.options
    known = f" local{' local'.join(local)} remote{' remote'.join(remote)}"
    if options.cuda is None:
        return f"{side.lead}{side.before}{known}{side.after}{row}{text.RULE}"
    opened = side.listing + text.cuda_picked(end.process.site, options, end.bits)
    made, freed = text.cuda_buffer(options, end.bits)
    return f"{side.lead}{opened}{made}{side.before}{known}{side.after}{row}{text.RULE}{freed}"


def _gpu_complaint(end: PairEnd) -> tuple[str, str] | None:
    """Stdout and stderr of CUDA's refusal, None when the GPU works."""
    side, options, site = end.side, end.options, end.process.site
    assert options.cuda is not None
    if not side.endpoint:
        return "initializing CUDA\n", text.NO_GPU % options.cuda + text.NO_RESOURCES
    if site.trouble_of(side.endpoint) == "broken":
        picked = side.listing + text.cuda_picked(site, options, end.bits)
        return picked + "cuCtxCreate() error=214\n", text.NO_RESOURCES  # 214: CUDA_ERROR_ECC_UNCORRECTABLE
    return None
