"""``nvidia-smi --query-compute-apps=pid[,process_name]``: which processes use the GPUs of a host."""

from __future__ import annotations

from fabric.sim.collective import Running
from fabric.sim.port_tool import Asked, Said

FORMAT = "--format=csv,noheader"
WORDS, NAMES = (frozenset({f"--query-compute-apps={what}", FORMAT}) for what in ("pid", "pid,process_name"))


def compute_apps(asked: Asked) -> Said | None:
    """One pid a line, and its program's path, of every collective that runs here; None when something else is asked."""
    if frozenset(asked.words) not in (WORDS, NAMES):
        return None
    busy = {flow.process.pid: flow.job.operation for flow in asked.site.flows if isinstance(flow, Running)}
    named = frozenset(asked.words) == NAMES
    return Said("".join(f"{pid}{f', /usr/bin/{busy[pid]}_perf' if named else ''}\n" for pid in sorted(busy)))
