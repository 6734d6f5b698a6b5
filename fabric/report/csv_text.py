"""Every measurement as CSV; no cell can become a formula in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from fabric.report.shown_run import ShownRun
from fabric.report.visible import visible

HEAD = (
    "phase",
    "probe_id",
    "kind",
    "hosts",
    "outcome",
    "metric",
    "size_bytes",
    "value",
    "unit",
    "required_gbps",
    "reason",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(run: ShownRun) -> Iterator[str]:
    """Head first, then a line a measurement; a probe without any has one line with its reason."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEAD)
    for row in run.rows:
        probe, verdict = row.probe, row.verdict
        start = (probe.phase, probe.probe_id, probe.kind, " ".join(probe.hosts), verdict.outcome.value)
        end = ("" if verdict.limit_gbps is None else verdict.limit_gbps, cell(verdict.reason))
        measured = row.result.measurements if row.result is not None and row.result.outcome is None else ()
        numbers: list[tuple[object, ...]] = [
            (cell(m.metric), m.size_bytes or "", m.value, cell(m.unit)) for m in measured
        ]
        numbers = numbers or [("", "", "", "")]
        for found in numbers:
            writer.writerow([*map(cell, start), *found, *end])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def cell(text: str) -> str:
    """Bounded and on one line; an apostrophe before what a spreadsheet would calculate."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
