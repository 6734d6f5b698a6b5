"""A collective whose packets vanish: it stands still, goes on at a retry, or NCCL gives up when that takes too long."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from fabric.sim import collective_text as text
from fabric.sim.hashing import word
from fabric.sim.transport import NCCL_RETRY, NCCL_TIMEOUT, Patience, abort_window_s, stall_s

if TYPE_CHECKING:
    from fabric.sim.collective import Running
    from fabric.sim.site import Site

REASON = "remote process exited or there was a network error"


class Outage:
    """Since when nothing gets through, and the retry that will: None while there is no path."""

    __slots__ = ("began_s", "retry_s")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.retry_s: float | None = None


def patience_of(running: Running) -> Patience:
    """NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT; what is no such number counts as not set."""
    env = running.job.setting.env
    timeout = _bounded(env.get("NCCL_IB_TIMEOUT"), NCCL_TIMEOUT, most=31)
    return Patience(timeout, _bounded(env.get("NCCL_IB_RETRY_CNT"), NCCL_RETRY, most=7))


def patient_rate(running: Running, rate_gbps: float, at_s: float) -> float:
    """
    What a collective really moves, where its paths would carry *rate_gbps*.

    From the first lost packet on it is 0, until a retry meets paths that work: k * T after that, with T the timeout of
    its queue pairs. A path that works between two retries helps nobody.
    """
    outage = running.outage
    if rate_gbps <= 0.0:
        if outage is None:
            _begin(running, at_s)
        else:
            outage.retry_s = None
        return 0.0
    if outage is None:
        return rate_gbps
    if outage.retry_s is None:
        outage.retry_s = outage.began_s + stall_s(at_s - outage.began_s, patience_of(running).timeout)
        if at_s < outage.retry_s < inf:
            running.rack.timeline.at(outage.retry_s, lambda now_s: _retry(running, outage, now_s))
    if at_s < outage.retry_s:
        return 0.0
    running.outage, running.silent = None, False
    running.rack.timeline.sharing.stir(running)  # others have had its share; at this very instant it is shared anew
    return rate_gbps


def _begin(running: Running, at_s: float) -> None:
    outage = running.outage = Outage(at_s)
    running.silent = True
    running.rack.timeline.sharing.stir(running)
    patience = patience_of(running)

    def give_up(now_s: float) -> None:
        # The last retry still counts: with paths that work again it goes on just now.
        if running.live and running.outage is outage and outage.retry_s is None:
            _fail(running, now_s)

    if patience.timeout:  # 0 waits for ever
        running.rack.timeline.at(at_s + abort_window_s(patience.timeout, patience.retry), give_up)


def _retry(running: Running, outage: Outage, at_s: float) -> None:
    """Its rate is worked out anew at this instant."""
    if running.live and running.outage is outage and outage.retry_s == at_s:
        running.rack.timeline.sharing.dirty[running.shares[0][0]] = None


def _fail(running: Running, at_s: float) -> None:
    found = _lost_port(running) or _lost_edge(running)
    site, device, peer = found or (running.process.site, "mlx5_0", "")
    running.gone = True
    running.rack.timeline.sharing.end(running, at_s)
    stdout = running.job.marked(running.listing + _complaint(running, site, device, peer))
    running.rack.timeline.exit(running.process, at_s, status=3, stdout=stdout)


def _bounded(value: str | None, default: int, *, most: int) -> int:
    number = None if value is None or not value.isascii() or not value.isdigit() else int(value[:9])
    return default if number is None or number > most else number


def _lost_port(running: Running) -> tuple[Site, str, str] | None:
    """A host, its RNIC that is down, and another host's address; None when all ports are up."""
    for site, resources, _ in running.shares:
        for device in sorted(site.down):
            if site.layout.index[f"{device}:out"] in resources:
                others = [where.host.address for where, _, _ in running.shares if where is not site]
                return site, device, others[0] if others else site.host.address
    return None


def _lost_edge(running: Running) -> tuple[Site, str, str] | None:
    """The same for an edge of the ring that the network does not carry; the sender finds out."""
    network = running.rack.timeline.sharing.network
    edge = None if network is None or running.ring is None else network.dead_edge(running.ring)
    if edge is None:
        return None
    sender, receiver, rail = edge
    host = running.rack.topology.hosts[sender]
    device = next(rnic.device for rnic in host.platform.rnics if rnic.rail == rail)
    return running.rack.site(sender), device, running.rack.topology.hosts[receiver].address


def _complaint(running: Running, site: Site, device: str, peer: str) -> str:
    names = running.job.setting.hosts
    here = site.host.name
    number = names.index(here) if here in names else 0
    pid = 2 + word(running.bits, -2 - number) % 4194300
    said = text.completion_error(here, pid, peer=peer, device=device)
    return said + text.nccl_failure(here, (pid,), REASON)
