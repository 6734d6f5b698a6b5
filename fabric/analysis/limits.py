"""Which limit of a baseline is the one for a key, and what it asks of a probe."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from fabric.analysis.keys import line_rate_gbps
from fabric.model.line_reach import ONE_LINE, bound_by_lines, least_gbps, out_of_reach
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.units import size_text
from fabric.model.verdict import Baseline, Limit

_LimitKey = tuple[str, str, object, object, object, object]
_MOST_HOSTS = 2  # of a probe for which it is remembered: of more, finding it again would cost as much


class Limits:
    """
    The limits of one run; what each asks of a probe is worked out once for all hosts of a make.

    *override*: the name of the baseline for all hosts, instead of that of each host's platform.
    """

    def __init__(self, baselines: Mapping[str, Baseline], topology: Topology, override: str | None) -> None:
        self._baselines, self._topology, self._override = baselines, topology, override
        self._limits: dict[_LimitKey, Limit | None] = {}
        self._required: dict[Hashable, tuple[float | None, str]] = {}

    def required(self, probe: Probe, size_bytes: int | None) -> tuple[float | None, str]:
        """What a probe must reach at this size, Gb/s; None, and why, where no limit can judge it."""
        hosts, get = self._topology.hosts, probe.params.get
        if len(probe.hosts) > _MOST_HOSTS:
            return self._worked_out(probe, size_bytes)
        # All that a limit, and what the lines carry, depend on.
        key = (
            probe.kind,
            tuple([id(hosts[name].platform) for name in probe.hosts]),
            size_bytes,
            get("link_class"),
            get("rnic"),
            get("peer_rnic"),
            get("ranks"),
            get("algorithm"),
        )
        known = self._required.get(key)
        if known is None:
            known = self._required[key] = self._worked_out(probe, size_bytes)
        return known

    def _worked_out(self, probe: Probe, size_bytes: int | None) -> tuple[float | None, str]:
        limit = self._limit_for(probe, size_bytes)
        return (None, "") if limit is None else required(limit, probe, self._topology)

    def _limit_for(self, probe: Probe, size_bytes: int | None) -> Limit | None:
        """The most specific limit that matches, from the probe's baseline."""
        params, name = probe.params, self.baseline_of(probe)
        key = (name, probe.kind, params.get("link_class"), size_bytes, params.get("ranks"), params.get("algorithm"))
        if key not in self._limits:
            self._limits[key] = most_specific(self._baselines[name].limits, probe.kind, *key[2:])
        return self._limits[key]

    def baseline_of(self, probe: Probe) -> str:
        """The name of the baseline that judges a probe: that of its first host's platform, or the override."""
        return self._override or self._topology.hosts[probe.hosts[0]].platform.baseline


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
