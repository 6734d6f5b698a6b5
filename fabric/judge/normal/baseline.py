"""What a baseline says of a key: the limit that it has to meet, and what good runs recorded for it.

Acceptance is a claim of non-inferiority: "not significantly slower" is no proof of health, because too few or too noisy
samples are never significant. So PASS needs at least three samples whose ratio to the recorded median has the lower end
of its 95 % interval above 1 - margin (margin 3 %, collectives 5 %). The interval is Welch's t of logarithms. It
includes the uncertainty of the recorded median (pi/2 times the variance of a mean, as for a median of normal numbers).

Recording drops samples further than 3.5 robust standard deviations from the median, and repeats that until none is
dropped (the idea of ``fix_threshold`` in SuperBench's baseline generation). It refuses samples that are two
distributions: two classes in one key (two generations of hosts, two PCIe layouts) would give a median that no host has,
and a spread that hides any fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log, pi, sqrt
from statistics import fmean, geometric_mean, median, pvariance, variance

from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SAMPLES, LEAST_SPREAD, SCALE, Z_SLOW, half_width, robust
from fabric.judge.normal.keys import floor_of, line_rate_gbps
from fabric.model.outcome import Outcome
from fabric.model.probe import SHARE, Probe
from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.text import fold, size_text
from fabric.model.topology import NVLINK, Topology
from fabric.model.verdict import ONE_LINE, Baseline, Limit, bound_by_lines, least_gbps, most_specific, out_of_reach
from fabric.probes.shapes import int_param


def required(limit: Limit, probe: Probe, topology: Topology) -> tuple[float | None, str]:
    """Return what a limit requires of a probe, Gb/s; None, and why, if the probe's lines cannot carry that."""
    share = int_param(probe, SHARE) / 100 if SHARE in probe.params else 1.0
    least = least_gbps(limit, topology.hosts[probe.hosts[0]].platform) * share
    beyond = out_of_reach(least, _lines_gbps(probe, topology))
    return (None, beyond) if beyond else (least, "")


def _lines_gbps(probe: Probe, topology: Topology) -> tuple[float, ...]:
    """Return the rates of the lines that all bytes of a probe pass through, by the inventory; none if none bind it."""
    if probe.params.get("link_class") == NVLINK or not bound_by_lines(probe.kind, probe.params.get("algorithm")):
        return ()
    if probe.kind in ONE_LINE:
        line = line_rate_gbps(probe, topology)
        return () if line is None else (line,)
    rnics = (topology.hosts[name].platform.rnics for name in probe.hosts)
    return min((tuple(rnic.line_rate_gbps for rnic in own) for own in rnics), key=sum)


def key_text(probe: Probe, size_bytes: int | None) -> str:
    """Return the key of a probe in words: ``loopback, link_class pix, size 8M``."""
    words = [probe.kind]
    words += [f"{name} {probe.params[name]}" for name in ("link_class", "ranks", "algorithm") if name in probe.params]
    return ", ".join(words + ([f"size {size_text(size_bytes)}"] if size_bytes else []))


def changes_between(old: Iterable[Recorded], new: Iterable[Recorded]) -> list[KeyChange]:
    """Return the change of every key of either record, the largest loss first."""
    before, after = ({entry.key: entry for entry in entries} for entries in (old, new))
    found = [KeyChange(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return sorted(found, key=lambda change: (change.ratio, key_words(change.key)))


def fit_notes(baseline: Baseline) -> list[tuple[bool, str]]:
    """
    Return what does not fit between limits and records, as (whether the file is wrong, text).

    The file is wrong if a recorded median does not meet its limit: good parts would FAIL. The rest is worth a look.
    """
    notes: list[tuple[bool, str]] = []
    used: set[int] = set()
    for entry in baseline.recorded:
        key, words, median_gbps = entry.key, key_words(entry.key), entry.median_gbps
        limit = most_specific(baseline.limits, (key.kind, key.link_class, key.size_bytes, key.ranks, key.algorithm))
        if limit is None:
            text = f"{words}: recorded, and no limit: a fabric that was bad from the first day would pass"
            notes.append((False, text))
            continue
        used.add(id(limit))
        # For a limit per RNIC, it is not known here how many RNICs a host has.
        if limit.at_least_gbps > median_gbps and not limit.per_rnic:
            text = f"{words}: at least {limit.at_least_gbps:g} Gb/s required, above the recorded {median_gbps:.1f}"
            notes.append((True, text))
    missing = [Key(limit.kind, "", *limit.key[1:]) for limit in baseline.limits if id(limit) not in used]
    return notes + [(False, f"{key_words(key)}: a limit, and nothing recorded") for key in missing]


@dataclass(frozen=True, slots=True)
class RecordedRatio:
    """
    The ratio of a measurement to a record. PASS: no slower; FAIL: slower than the margin; INCONCLUSIVE: cannot be told.

    A FAIL here is about a number, not yet about a part: confirmation decides what becomes of it.
    """

    outcome: Outcome
    reason: str
    ratio: float


def against_recorded(values: Sequence[float], recorded: Recorded) -> RecordedRatio:
    """Compare positive *values* (Gb/s, repetitions of one probe) with a recorded distribution."""
    margin = floor_of(recorded.kind)
    if min(values) <= 0.0:
        return RecordedRatio(Outcome.FAIL, "0 Gb/s was measured", 0.0)
    ratio = geometric_mean(values) / recorded.median_gbps
    reason = f"{ratio - 1:+.1%} against the recorded {recorded.median_gbps:.1f} Gb/s of {recorded.n} samples"
    if len(values) < LEAST_SAMPLES:
        # One or two samples can FAIL, by the recorded spread, but not PASS.
        if ratio < 1 - margin and (ratio - 1) / _spread(recorded) < Z_SLOW:
            return RecordedRatio(Outcome.FAIL, reason, ratio)
        few = f"{reason}: {LEAST_SAMPLES} samples are needed to pass, {len(values)} here"
        return RecordedRatio(Outcome.INCONCLUSIVE, few, ratio)
    own = variance(map(log, values))
    half = half_width([own, pi / 2 * _spread(recorded) ** 2], [len(values), max(2, recorded.n)])
    low, high = ratio * exp(-half), ratio * exp(half)
    reason += f" (95 % interval {low - 1:+.1%} to {high - 1:+.1%})"
    if low > 1 - margin:
        return RecordedRatio(Outcome.PASS, reason, ratio)
    if high < 1 - margin:
        return RecordedRatio(Outcome.FAIL, reason, ratio)
    return RecordedRatio(Outcome.INCONCLUSIVE, f"{reason}: repeat it more often to tell", ratio)


def _spread(recorded: Recorded) -> float:
    """Return the recorded coefficient of variation, but at least ``LEAST_SPREAD``."""
    return max(recorded.cv, LEAST_SPREAD)


APART = 5.0
"""The least Ashman's D of two classes (Ashman, Bird and Zepf 1994 say 2 for fitted modes; a normal distribution cut in
its middle gives 2.7 and a uniform one 3.5, so a cut needs more; a choice)."""

OUTLIERS = 0.1
"""Up to this share of the samples may be outliers; a larger part is a class, or they are no one class (a choice)."""


@dataclass(frozen=True, slots=True)
class RecordedNumber:
    """One number of a good run, and what it was measured on: hosts, and parts within them (``mlx5_0``, ``gpu3``)."""

    value_gbps: float
    hosts: tuple[str, ...]
    parts: tuple[str, ...]
    run: str


def record(key: Key, samples: Sequence[RecordedNumber]) -> Recorded | str | None:
    """Return the distribution of a key; None if it has too few samples, or a text if they are no one class."""
    if len(samples) < LEAST_PEERS:
        return None
    ordered = sorted(samples, key=lambda sample: sample.value_gbps)
    at = two_classes([sample.value_gbps for sample in ordered], floor=floor_of(key.kind))
    if at is not None:
        return f"these look like two classes: {_two(ordered[:at], ordered[at:])}"
    kept = trimmed([sample.value_gbps for sample in ordered])
    if len(samples) - len(kept) > OUTLIERS * len(samples):
        return f"{len(samples) - len(kept)} of {len(samples)} samples are far from the others: these are no one class"
    runs = tuple(sorted({sample.run for sample in samples}))
    return replace(distribution(key, kept), runs=runs, trimmed=len(samples) - len(kept))


def distribution(key: Key, values: Sequence[float]) -> Recorded:
    """Return the distribution of a key over *values* (Gb/s), as it is recorded."""
    middle, sigma = robust(values)
    cv = sigma / middle if middle > 0.0 else 0.0
    return Recorded(**asdict(key), median_gbps=middle, mad_gbps=sigma / SCALE, n=len(values), cv=cv, runs=())


def trimmed(values: Sequence[float]) -> list[float]:
    """Drop outliers on either side until none is left; every pass drops at least one, so it ends."""
    kept = list(values)
    while True:
        middle, sigma = robust(kept)
        far = -Z_SLOW * max(sigma, LEAST_SPREAD * middle)
        inside = [value for value in kept if abs(value - middle) <= far]
        if len(inside) == len(kept):
            return kept
        kept = inside


def two_classes(ordered: Sequence[float], *, floor: float) -> int | None:
    """Return the index at which sorted values split into two classes (first of the upper one); None: one class."""
    least = max(3, round(OUTLIERS * len(ordered)))
    if len(ordered) < 2 * least:
        return None
    gaps = [(ordered[at] - ordered[at - 1], at) for at in range(least, len(ordered) - least + 1)]
    _, at = max(gaps)
    low, high = ordered[:at], ordered[at:]
    apart = fmean(high) - fmean(low)
    if apart < floor * fmean(high):
        return None
    spread = sqrt(pvariance(low) + pvariance(high))
    return at if apart * sqrt(2.0) > APART * spread else None


def _two(low: Sequence[RecordedNumber], high: Sequence[RecordedNumber]) -> str:
    return " and ".join(
        f"{len(side)} samples around {median(one.value_gbps for one in side):.1f} Gb/s ({_whose(side, other)})"
        for side, other in ((high, low), (low, high))
    )


def _whose(side: Sequence[RecordedNumber], other: Sequence[RecordedNumber]) -> str:
    """Return what tells one side from the other: its hosts, or its parts, or else one sample as an example."""
    hosts, its_hosts = ({host for sample in one for host in sample.hosts} for one in (side, other))
    parts, its_parts = ({part for sample in one for part in sample.parts} for one in (side, other))
    mine = hosts if hosts.isdisjoint(its_hosts) else parts - its_parts
    return fold(sorted(mine)) if mine else f"such as {' '.join((*side[0].hosts, *side[0].parts))}"
