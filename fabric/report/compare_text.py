"""Two runs compared, in words: what became worse first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.model.comparison import Change, Compared, Comparison
from fabric.model.units import size_text
from fabric.report.compare_fold import folded
from fabric.report.counted import counted

EXIT_CODES = {Change.BETTER: 0, Change.SAME: 0, Change.WORSE: 1, Change.INCONCLUSIVE: 3}
"""What a comparison means to the shell: 0 the same or better, 1 worse, 3 it cannot be told."""

COMPARE_FORMAT = 1

_MEANING = {
    Change.BETTER: "nothing became worse, and something better",
    Change.SAME: "of what both measured, nothing changed by more than what matters",
    Change.WORSE: "something became worse",
    Change.INCONCLUSIVE: "not enough was measured to tell",
}

_MOST_ROWS = 20


def compare_lines(first: str, second: str, comparison: Comparison, notes: Sequence[str]) -> list[str]:
    """The answer first, then what changed, the worst first, then what could not be compared."""
    change = comparison.change
    meaning = _MEANING[change] if comparison.common else "nothing in common: no probe was measured in both runs"
    lines = [f"{change.name}  {meaning}"]
    tally = ", ".join(
        f"{number} {kind.value}" for kind in Change if (number := sum(row.change is kind for row in comparison.rows))
    )
    lines.append(f"      {_in_both(comparison)}; components by kind and size: {tally or 'none'}")
    lines_of = folded(comparison.rows)
    for kind in (Change.WORSE, Change.INCONCLUSIVE, Change.BETTER):
        rows = [row for row in lines_of if row.change is kind]
        if rows:
            lines += ["", f"{kind.value.capitalize()} (second over first, 99 % interval)"]
            lines += [f"  {line}" for line in _aligned([_cells(row) for row in rows[:_MOST_ROWS]])]
        if len(rows) > _MOST_ROWS:
            lines.append(f"  and {len(rows) - _MOST_ROWS} more: see --json")
    if comparison.unmeasured:
        many = counted(comparison.unmeasured, "probe")
        lines += ["", f"{many} of the first run could not be measured in the second: they are named below"]
    lines += _only("first", comparison.only_first) + _only("second", comparison.only_second)
    if notes:
        lines += ["", *(f"Note    {note}" for note in notes)]
    return [*lines, "", f"First   {first}", f"Second  {second}"]


def _in_both(comparison: Comparison) -> str:
    """``640 probes in both, 48% of what the first run measured and 11% of the second``."""
    text = f"{comparison.common:,} probe{'' if comparison.common == 1 else 's'} in both"
    totals = (comparison.measured_first, comparison.measured_second)
    if not all(totals) or set(totals) == {comparison.common}:
        return text
    first, second = (comparison.common / total for total in totals)
    return f"{text}, {first:.0%} of what the first run measured and {second:.0%} of the second"


def compare_document(first: str, second: str, comparison: Comparison, notes: Sequence[str]) -> dict[str, Any]:
    """The same for pipelines, every row in it."""
    return {
        "format": COMPARE_FORMAT,
        "first": first,
        "second": second,
        "change": comparison.change.value,
        "exit_code": EXIT_CODES[comparison.change],
        "common": comparison.common,
        "measured_first": comparison.measured_first,
        "measured_second": comparison.measured_second,
        "unmeasured": comparison.unmeasured,
        "rows": [
            {
                "component": row.component,
                "kind": row.kind,
                "size_bytes": row.size_bytes,
                "change": row.change.value,
                "ratio": row.ratio,
                "low": row.low,
                "high": row.high,
                "n": row.n,
                "note": row.note,
            }
            for row in comparison.rows
        ],
        "only_first": list(comparison.only_first),
        "only_second": list(comparison.only_second),
        "notes": list(notes),
    }


def _cells(row: Compared) -> tuple[str, ...]:
    size = size_text(row.size_bytes) if row.size_bytes else ""
    ratio = f"{row.ratio:.3f}" if row.ratio is not None else "-"
    interval = f"{row.low:.3f} to {row.high:.3f}" if row.low is not None and row.high is not None else ""
    return row.component, f"{row.kind} {size}".strip(), ratio, interval, f"n={row.n}", row.note


def _only(which: str, texts: Sequence[str]) -> list[str]:
    return ["", f"Only in the {which} run", *(f"  {text}" for text in texts)] if texts else []


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
