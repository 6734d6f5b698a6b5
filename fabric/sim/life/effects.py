"""What becomes of running programs when a GPU or a whole host goes away under them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fabric.sim import collective_text as text
from fabric.sim.hashing import word
from fabric.sim.site import Site

if TYPE_CHECKING:
    from fabric.sim.collective import Running
    from fabric.sim.rack import Rack

NOTICE_S = 1.0
"""How long CUDA takes to report that a GPU is gone; choice."""


def lose_gpus(rack: Rack, site: Site, gpus: Collection[str], at_s: float) -> None:
    """Programs that use one of these GPUs end as their tool ends then."""
    from fabric.sim.collective import Running  # it knows the rack, which knows us

    index = site.layout.index
    gone = {place for name, place in index.items() if name.partition(":")[0] in gpus}
    for flow in site.running:
        if not flow.live or not any(where is site and gone.intersection(has) for where, has, _ in flow.shares):
            continue
        if isinstance(flow, Running):
            _end_collective(rack, flow, site, at_s)
        else:
            flow.lost(site, at_s)


def _end_collective(rack: Rack, running: Running, site: Site, at_s: float) -> None:
    """nccl-tests checks every CUDA call: the rank on that GPU says what it was told, and all end."""
    process, names = running.process, running.job.setting.hosts
    running.abandon(process, at_s)
    number = names.index(site.host.name) if site.host.name in names else 0
    pid = 2 + word(running.bits, -2 - number) % 4194300
    said = text.cuda_failure(site.host.name, pid, "uncorrectable ECC error encountered")
    stdout = running.job.marked(running.listing + said)
    rack.timeline.exit_later(process, at_s + NOTICE_S, status=2, stdout=stdout)


def fall_silent(rack: Rack, site: Site, at_s: float) -> None:
    """A host hangs or is gone: its programs never answer, and whoever waits for them learns it by his own deadline."""
    timeline = rack.timeline
    for pid, process in list(timeline.alive.items()):
        if process.site is site:
            if process.work is not None:
                process.work.abandon(process, at_s)
                process.work = None
            del timeline.alive[pid]
            rack.silent[pid] = process
