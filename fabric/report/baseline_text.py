"""Baselines in words: what a candidate holds, what a baseline records, what differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.verdict import Baseline


def recorded_lines(entries: Iterable[Recorded]) -> list[str]:
    """One line a key: median, spread, how many samples of how many runs."""
    rows = [
        (
            key_words(entry.key),
            f"{entry.median_gbps:.1f}",
            f"CV {entry.cv:.4f}",
            f"{entry.n} samples of {len(entry.runs)} run{'' if len(entry.runs) == 1 else 's'}"
            + (f", {entry.trimmed} trimmed" if entry.trimmed else ""),
        )
        for entry in entries
    ]
    return _aligned(sorted(rows))


def baseline_lines(baseline: Baseline) -> list[str]:
    """Limits, then records."""
    limits = _aligned(
        [
            (
                " ".join(part for part in (limit.kind, limit.link_class, limit.algorithm) if part),
                f"at least {limit.at_least_gbps:g}" + (" for each RNIC" if limit.per_rnic else ""),
                limit.source,
            )
            for limit in baseline.limits
        ]
    )
    recorded = recorded_lines(baseline.recorded) or ["nothing: fabric baseline record RUN..."]
    return [
        f"{baseline.name} ({baseline.source})",
        "",
        "Limits, Gb/s",
        *(f"  {line}" for line in limits),
        "",
        "Recorded, Gb/s (median)",
        *(f"  {line}" for line in recorded),
    ]


def change_lines(changes: Iterable[KeyChange]) -> list[str]:
    """One line a key that is new, gone or different; "no difference" when there is none."""
    rows = []
    for change in changes:
        old = "new" if change.old is None else f"{change.old.median_gbps:.1f}"
        new = "gone" if change.new is None else f"{change.new.median_gbps:.1f}"
        if change.old != change.new:
            share = f"{change.ratio - 1:+.1%}" if change.old and change.new else ""
            rows.append((key_words(change.key), old, "->", new, share))
    return _aligned(rows) or ["no difference"]


def too_few_lines(keys: Iterable[Key]) -> list[str]:
    """Keys that were not recorded."""
    return [f"not recorded, fewer than 8 samples: {key_words(key)}" for key in keys]


def baseline_document(baseline: Baseline) -> dict[str, Any]:
    """A baseline for pipelines."""
    from dataclasses import asdict

    return {
        "name": baseline.name,
        "file": baseline.source,
        **{
            "limits": [asdict(limit) for limit in baseline.limits],
            "recorded": [asdict(entry) for entry in baseline.recorded],
        },
    }


def changes_document(changes: Iterable[KeyChange]) -> list[dict[str, Any]]:
    """Differences for pipelines."""
    from dataclasses import asdict

    return [
        {
            "key": asdict(change.key),
            "old_gbps": change.old.median_gbps if change.old else None,
            "new_gbps": change.new.median_gbps if change.new else None,
            "ratio": change.ratio if change.old and change.new else None,
        }
        for change in changes
    ]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
