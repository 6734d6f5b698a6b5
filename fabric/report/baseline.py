"""Baselines in words: what a candidate holds, what a baseline records, what differs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.text import size_text
from fabric.model.verdict import Baseline, Limit
from fabric.report.output import columns, counted, jsonable


def recorded_lines(entries: Iterable[Recorded]) -> list[str]:
    """One line a key: median, spread, how many samples of how many runs."""
    rows = [
        (
            key_words(entry.key),
            f"median {entry.median_gbps:.1f} Gb/s",
            f"CV {entry.cv:.4f}",
            f"{entry.n} samples of {counted(len(entry.runs), 'run')}"
            + (f", {entry.trimmed} trimmed" if entry.trimmed else ""),
        )
        for entry in entries
    ]
    return columns(sorted(rows))


def baseline_lines(baseline: Baseline) -> list[str]:
    """Limits, then records."""
    limits = columns((limit_words(limit), _least(limit), limit.source) for limit in baseline.limits)
    recorded = recorded_lines(baseline.recorded) or ["nothing: fabric baseline record RUN..."]
    told = ["Limits", *(f"  {line}" for line in limits), "", "Recorded", *(f"  {line}" for line in recorded)]
    return [f"{baseline.name} ({baseline.source})", "", *told]


def limit_words(limit: Limit) -> str:
    """What a limit is for: ``loopback pix``, ``group_all_reduce 1G 64 ranks Ring``."""
    size = size_text(limit.size_bytes) if limit.size_bytes else ""
    ranks = f"{limit.ranks} ranks" if limit.ranks else ""
    least = f"from {size_text(limit.min_size_bytes)} on" if limit.min_size_bytes else ""
    return " ".join(
        part for part in (limit.kind, limit.link_class or "", size, ranks, limit.algorithm or "", least) if part
    )


def _least(limit: Limit) -> str:
    return f"at least {limit.at_least_gbps:g} Gb/s" + (" for each RNIC" if limit.per_rnic else "")


def change_lines(changes: Iterable[KeyChange]) -> list[str]:
    """One line a key that is new, gone or different; "no difference" when there is none."""
    rows = []
    for change in changes:
        old = "new" if change.old is None else f"{change.old.median_gbps:.1f} Gb/s"
        new = "gone" if change.new is None else f"{change.new.median_gbps:.1f} Gb/s"
        if change.old != change.new:
            share = f"{change.ratio - 1:+.1%}" if change.old and change.new else ""
            rows.append((key_words(change.key), old, "->", new, share))
    return columns(rows) or ["no difference"]


def too_few_lines(keys: Iterable[Key]) -> list[str]:
    """Keys that were not recorded."""
    return [f"not recorded, fewer than 8 samples: {key_words(key)}" for key in keys]


def baseline_document(baseline: Baseline) -> dict[str, Any]:
    """A baseline for pipelines."""
    return {"name": baseline.name, "file": baseline.source, **jsonable(baseline, ("limits", "recorded"))}
