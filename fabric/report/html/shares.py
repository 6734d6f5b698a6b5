"""How much of what is normal a probe reached: what the colours of the page mean."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The median over all hosts of each measurement that one host makes alone, Gb/s; only with enough peers."""
    found: dict[Label, list[float]] = {}
    for row in run.rows:
        if len(row.probe.hosts) == 1 and row.verdict.value_gbps is not None:
            found.setdefault(label_of(row), []).append(row.verdict.value_gbps)
    return {label: median(values) for label, values in found.items() if len(values) >= FEWEST}


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
