"""A collective whose port went down under it: it stands still, and NCCL gives up when that takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.sim import collective_text as text
from fabric.sim.hashing import word
from fabric.sim.transport import NCCL_RETRY, NCCL_TIMEOUT, abort_window_s

if TYPE_CHECKING:
    from fabric.sim.collective import Running
    from fabric.sim.site import Site

REASON = "remote process exited or there was a network error"


def watch(running: Running, site: Site, at_s: float) -> None:
    """End the collective unless bytes move again within NCCL's patience."""
    env = running.job.setting.env
    timeout = _bounded(env.get("NCCL_IB_TIMEOUT"), NCCL_TIMEOUT, most=31)
    retry = _bounded(env.get("NCCL_IB_RETRY_CNT"), NCCL_RETRY, most=7)
    carried_gb = running.carried_gb(at_s)

    def give_up(now_s: float) -> None:
        device = _lost_device(running, site)
        if running.live and device is not None and running.carried_gb(now_s) == carried_gb:
            running.gone = True
            running.rack.timeline.sharing.end(running, now_s)
            stdout = running.job.marked(running.listing + _complaint(running, site, device))
            running.rack.timeline.exit(running.process, now_s, status=3, stdout=stdout)

    if timeout:  # 0 waits for ever
        running.rack.timeline.at(at_s + abort_window_s(timeout, retry), give_up)


def _bounded(value: str | None, default: int, *, most: int) -> int:
    number = None if value is None or not value.isascii() or not value.isdigit() else int(value[:9])
    return default if number is None or number > most else number


def _lost_device(running: Running, site: Site) -> str | None:
    """An RNIC of the host that the collective uses and that is down; None when all are up."""
    used = {index for where, resources, _ in running.shares if where is site for index in resources}
    return next((device for device in sorted(site.down) if site.layout.index[f"{device}:out"] in used), None)


def _complaint(running: Running, site: Site, device: str) -> str:
    names = running.job.setting.hosts
    here = site.host.name
    number = names.index(here) if here in names else 0
    pid = 2 + word(running.bits, -2 - number) % 4194300
    peers = [where.host.address for where, _, _ in running.shares if where is not site]
    peer = peers[0] if peers else site.host.address
    said = text.completion_error(here, pid, peer=peer, device=device)
    return said + text.nccl_failure(here, (pid,), REASON)
