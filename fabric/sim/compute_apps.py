"""``nvidia-smi --query-compute-apps=pid``: which processes use the GPUs of a host."""

from __future__ import annotations

from fabric.sim.collective import Running
from fabric.sim.port_tool import Asked, Said

WORDS = frozenset({"--query-compute-apps=pid", "--format=csv,noheader"})


def compute_apps(asked: Asked) -> Said | None:
    """One pid a line, of every collective that runs here; None when something else is asked."""
    if frozenset(asked.words) != WORDS:
        return None
    busy = {flow.process.pid for flow in asked.site.flows if isinstance(flow, Running)}
    return Said("".join(f"{pid}\n" for pid in sorted(busy)))
