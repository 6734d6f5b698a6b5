"""Which limit of a baseline is the one for a key, and what it asks of a probe."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from fabric.judge.normal.keys import line_rate_gbps
from fabric.model.probe import SHARE, Probe
from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.text import size_text
from fabric.model.topology import NVLINK, Topology
from fabric.model.verdict import ONE_LINE, Baseline, Limit, bound_by_lines, least_gbps, out_of_reach
from fabric.probes.shapes import int_param

_MOST_HOSTS = 2  # of a probe for which it is remembered: of more, finding it again would cost as much


class LimitTable:
    """
    The limits of one run; what each asks of a probe is worked out once for all hosts of a make.

    *override*: the name of the baseline for all hosts, instead of that of each host's platform.
    """

    def __init__(self, baselines: Mapping[str, Baseline], topology: Topology, override: str | None) -> None:
        self._baselines, self._topology, self._override = baselines, topology, override
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
            get(SHARE),
        )
        known = self._required.get(key)
        if known is None:
            known = self._required[key] = self._worked_out(probe, size_bytes)
        return known

    def _worked_out(self, probe: Probe, size_bytes: int | None) -> tuple[float | None, str]:
        get, limits = probe.params.get, self._baselines[self.baseline_of(probe)].limits
        limit = most_specific(limits, probe.kind, get("link_class"), size_bytes, get("ranks"), get("algorithm"))
        return (None, "") if limit is None else required(limit, probe, self._topology)

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
        if link_class == NVLINK and limit.link_class != NVLINK:
            continue  # what is said of the network says nothing of NVLink
        if limit.kind != kind or any(a is not None and a != w for a, w in zip(asked, wanted, strict=True)):
            continue
        weight = sum(a is not None for a in asked)
        if best is None or weight > best[0]:
            best = (weight, limit)
    return best[1] if best else None


def required(limit: Limit, probe: Probe, topology: Topology) -> tuple[float | None, str]:
    """What a limit asks of a probe, Gb/s; None, and why, where its lines cannot carry that, so that it cannot judge."""
    share = int_param(probe, SHARE) / 100 if SHARE in probe.params else 1.0
    least = least_gbps(limit, topology.hosts[probe.hosts[0]].platform) * share
    beyond = out_of_reach(least, _lines_gbps(probe, topology))
    return (None, beyond) if beyond else (least, "")


def _lines_gbps(probe: Probe, topology: Topology) -> tuple[float, ...]:
    """The lines that all bytes of a probe pass through, by the inventory; none where it is not bound by them."""
    if probe.params.get("link_class") == NVLINK or not bound_by_lines(probe.kind, probe.params.get("algorithm")):
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


LOOSE = 0.8
"""A limit below this share of the recorded median lets a part through that lost a fifth (a choice)."""


def changes_between(old: Iterable[Recorded], new: Iterable[Recorded]) -> list[KeyChange]:
    """Every key of either, the largest loss first."""
    before, after = ({entry.key: entry for entry in entries} for entries in (old, new))
    found = [KeyChange(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return sorted(found, key=lambda change: (change.ratio, key_words(change.key)))


def fit_notes(baseline: Baseline) -> list[tuple[bool, str]]:
    """
    What does not fit between limits and records, as (whether the file is wrong, in words).

    Wrong is a limit that the recorded median does not meet: good parts FAIL. The rest is worth a look.
    """
    notes: list[tuple[bool, str]] = []
    used: set[int] = set()
    for entry in baseline.recorded:
        limit = _limit(baseline.limits, entry.key)
        words = key_words(entry.key)
        if limit is None:
            notes.append(
                (False, f"{words}: recorded, and no limit: a fabric that was bad from the first day would pass")
            )
            continue
        used.add(id(limit))
        if limit.per_rnic:
            continue  # how many RNICs a host has is the platform's, not the baseline's
        if limit.at_least_gbps > entry.median_gbps:
            text = (
                f"{words}: at least {limit.at_least_gbps:g} Gb/s required, above the recorded {entry.median_gbps:.1f}"
            )
            notes.append((True, text))
        elif limit.at_least_gbps < LOOSE * entry.median_gbps:
            share = limit.at_least_gbps / entry.median_gbps
            text = f"{words}: the limit is {share:.0%} of the recorded {entry.median_gbps:.1f} Gb/s"
            notes.append((False, text))
    missing = [limit for limit in baseline.limits if id(limit) not in used]
    return notes + [(False, f"{_limit_words(limit)}: a limit, and nothing recorded") for limit in missing]


def _limit(limits: Sequence[Limit], key: Key) -> Limit | None:
    return most_specific(limits, key.kind, key.link_class, key.size_bytes, key.ranks, key.algorithm)


def _limit_words(limit: Limit) -> str:
    size = size_text(limit.size_bytes) if limit.size_bytes else None
    return " ".join(part for part in (limit.kind, limit.link_class, size, limit.algorithm) if part)
