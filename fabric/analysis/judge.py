"""Each probe against the limit for its key: the limit, with its source, decides; no limit is never a pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.units import size_text
from fabric.model.verdict import Baseline, Limit, ProbeVerdict

_Key = tuple[str, str, object, object, object, object]


class Judge:
    """Judges probes of one run; remembers which limit belongs to which key."""

    def __init__(
        self, baselines: Mapping[str, Baseline], *, topology: Topology, marginal: float, override: str | None = None
    ) -> None:
        self._baselines, self._topology, self._marginal, self._override = baselines, topology, marginal, override
        self._limits: dict[_Key, Limit | None] = {}

    def judge(self, pairs: Iterable[tuple[Probe, ProbeResult]]) -> list[ProbeVerdict]:
        """One verdict a probe; repetitions of one series are judged together, by their median."""
        listed = list(pairs)
        series: dict[tuple[object, ...], list[float]] = {}
        for probe, result in listed:
            if result.outcome is None and result.measurements:
                series.setdefault(_series(probe), []).append(representative(result)[0])
        return [self._one(probe, result, series.get(_series(probe), ())) for probe, result in listed]

    def _one(self, probe: Probe, result: ProbeResult, values: Sequence[float]) -> ProbeVerdict:
        if result.outcome is not None:
            ran = result.attempt > 0
            return ProbeVerdict(probe.probe_id, result.outcome, result.reason, named=result.named, ran=ran)
        if not values:
            return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, "nothing was measured")
        value = median(values) if len(values) > 1 else values[0]
        size_bytes = representative(result)[1]
        limit = self.limit_for(probe, size_bytes)
        platform = self._topology.hosts[probe.hosts[0]].platform
        if limit is None:
            reason = f"{value:.1f} Gb/s, no baseline for {_key_text(probe, size_bytes)}"
            return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, reason, value)
        least = limit.at_least_gbps * (min(len(platform.rnics), len(platform.gpus)) if limit.per_rnic else 1)
        if value < least:
            reason = f"{value:.1f} Gb/s, at least {least:g} required ({value / least - 1:+.0%})"
            return ProbeVerdict(probe.probe_id, Outcome.FAIL, reason, value, least)
        if value < least * (1 + self._marginal):
            reason = f"{value:.1f} Gb/s, just above the {least:g} required"
            return ProbeVerdict(probe.probe_id, Outcome.MARGINAL, reason, value, least)
        return ProbeVerdict(probe.probe_id, Outcome.PASS, "", value, least)

    def limit_for(self, probe: Probe, size_bytes: int | None) -> Limit | None:
        """The most specific limit that matches, from the baseline of the probe's platform (or the override)."""
        name = self._override or self._topology.hosts[probe.hosts[0]].platform.baseline
        params = probe.params
        key = (name, probe.kind, params.get("link_class"), size_bytes, params.get("ranks"), params.get("algorithm"))
        if key not in self._limits:
            self._limits[key] = _most_specific(self._baselines[name].limits, key)
        return self._limits[key]


def _most_specific(limits: Iterable[Limit], key: _Key) -> Limit | None:
    _, kind, *wanted = key
    size_bytes = key[3] if isinstance(key[3], int) else 0
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


def representative(result: ProbeResult) -> tuple[float, int | None]:
    """
    The one number that is compared with a limit, and its message size.

    The largest size, because limits are given for large messages; of its out-of-place and in-place numbers the
    lower. Never the average over sizes that nccl-tests prints.
    """
    largest = max(m.size_bytes or 0 for m in result.measurements)
    value = min(m.value for m in result.measurements if (m.size_bytes or 0) == largest)
    return value, largest or None


def _series(probe: Probe) -> tuple[object, ...]:
    return probe.phase, probe.kind, probe.hosts, probe.params.get("series")


def _key_text(probe: Probe, size_bytes: int | None) -> str:
    words = [probe.kind]
    words += [f"{name} {probe.params[name]}" for name in ("link_class", "ranks", "algorithm") if name in probe.params]
    return ", ".join(words + ([f"size {size_text(size_bytes)}"] if size_bytes else []))
