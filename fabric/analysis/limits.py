"""Which limit of a baseline is the one for a key, and what it asks of a probe."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.analysis.keys import line_rate_gbps
from fabric.model.line_reach import ONE_LINE, bound_by_lines, least_gbps, out_of_reach
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.units import size_text
from fabric.model.verdict import Limit


def most_specific(
    limits: Iterable[Limit], kind: str, link_class: object, size: object, ranks: object, algorithm: object
) -> Limit | None:
    """The limit that matches and says most about the key; None when none matches."""
    wanted = (link_class, size, ranks, algorithm)
    size_bytes = size if isinstance(size, int) else 0
    best: tuple[int, Limit] | None = None
    for limit in limits:
        asked = (limit.link_class, limit.size_bytes, limit.ranks, limit.algorithm)
        if size_bytes < limit.min_size_bytes:
            continue
        if limit.kind != kind or any(a is not None and a != w for a, w in zip(asked, wanted, strict=True)):
            continue
        weight = sum(a is not None for a in asked)
        if best is None or weight > best[0]:
            best = (weight, limit)
    return best[1] if best else None


def required(limit: Limit, probe: Probe, topology: Topology) -> tuple[float | None, str]:
    """What a limit asks of a probe, Gb/s; None, and why, where its lines cannot carry that, so that it cannot judge."""
    least = least_gbps(limit, topology.hosts[probe.hosts[0]].platform)
    beyond = out_of_reach(least, _lines_gbps(probe, topology))
    return (None, beyond) if beyond else (least, "")


def _lines_gbps(probe: Probe, topology: Topology) -> tuple[float, ...]:
    """The lines that all bytes of a probe pass through, by the inventory; none where it is not bound by them."""
    if not bound_by_lines(probe.kind, probe.params.get("algorithm")):
        return ()
    if probe.kind in ONE_LINE:
        line = line_rate_gbps(probe, topology)
        return () if line is None else (line,)
    platforms = {id(host.platform): host.platform for host in map(topology.hosts.__getitem__, probe.hosts)}
    lines = [tuple(rnic.line_rate_gbps for rnic in platform.rnics) for platform in platforms.values()]
    return min(lines, key=sum)


def key_text(probe: Probe, size_bytes: int | None) -> str:
    """The key of a probe in words: ``loopback, link_class pix, size 8M``."""
    words = [probe.kind]
    words += [f"{name} {probe.params[name]}" for name in ("link_class", "ranks", "algorithm") if name in probe.params]
    return ", ".join(words + ([f"size {size_text(size_bytes)}"] if size_bytes else []))
