"""How much of what is normal a probe reached: what the colours of the page mean."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import median

from fabric.report.shown_run import Row, ShownRun

BOUNDS = (0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""Upper bounds of the colour classes v0 to v5; v6 is everything above (a choice: narrow where noise ends)."""

FEWEST = 3
"""Fewer peers than this have no median worth comparing with: then the limit is taken instead (a choice)."""

Label = tuple[str, str]
"""Kind and series: the same measurement on every host."""


def label_of(row: Row) -> Label:
    """What must be equal for two single-host probes to be peers."""
    return row.probe.kind, row.series


def medians(run: ShownRun) -> Mapping[Label, float]:
    """The median over all hosts of each measurement that one host makes alone, Gb/s; only with enough hosts."""
    found: dict[Label, list[tuple[str, float]]] = {}
    for row in run.rows:
        value, hosts = row.verdict.value_gbps, row.probe.hosts
        if len(hosts) == 1 and value is not None:
            found.setdefault(label_of(row), []).append((hosts[0], value))
    usual = {label: over_hosts(values) for label, values in found.items()}
    return {label: middle for label, middle in usual.items() if middle is not None}


def over_hosts(values: Sequence[tuple[Hashable, float]]) -> float | None:
    """
    The median of the hosts' own medians, of (host, value); None with fewer than FEWEST hosts.

    Over all values a bad host that is measured again and again would become what is normal.
    """
    hosts = len({host for host, _ in values})
    if hosts < FEWEST:
        return None
    if hosts == len(values):
        return median(value for _, value in values)
    several: dict[Hashable, list[float]] = {}
    for host, value in values:
        several.setdefault(host, []).append(value)
    return median(median(own) for own in several.values())


def share_of(row: Row, normal: Mapping[Label, float], label: Label | None = None) -> float | None:
    """
    Measured over the median of its peers, or over its limit where it has too few; None: nothing to say.

    *label*: that of the row, where it is known already.
    """
    value = row.verdict.value_gbps
    reference = normal.get(label or label_of(row)) or row.verdict.limit_gbps
    return value / reference if value is not None and reference else None


def colour_class(share: float | None) -> str:
    """``v0`` (half or less) to ``v6`` (normal); ``none`` where nothing was measured."""
    if share is None:
        return "none"
    return f"v{sum(share >= bound for bound in BOUNDS)}"
