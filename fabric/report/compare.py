"""Two runs compared, in words: what became worse first."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.part import Part
from fabric.model.text import size_text
from fabric.report.output import columns, counted, jsonable

LEAST_FOLDED = 3
"""So few rows of one host stand one by one (a choice: they are no longer than what would be said of them)."""

MOST_PARTS = 4
"""More parts of one host that changed alike are the host (a choice)."""

_Key = tuple[str, Difference]


def folded(rows: Sequence[Compared]) -> tuple[Compared, ...]:
    """
    The same rows, those of one host and one change as one line, where there are three or more; the order is kept.

    They are one line of the host where the host itself has such a row, or more than four of its parts have; else of
    each part (``gpu003/mlx5_2``) with three or more. The line has the numbers of the worst, which comes first, and says
    how many there are. SAME is never folded, nor is a row of several hosts (a path, an uplink).
    """
    members: dict[_Key, list[Compared]] = {}
    for row in rows:
        if _foldable(row):
            members.setdefault((_host(row), row.change), []).append(row)
    whole = {key for key, alike in members.items() if _as_a_whole(alike)}
    lines: dict[_Key, list[Compared]] = {}
    for row in rows:
        lines.setdefault(_key(row, whole), []).append(row)
    found: list[Compared] = []
    for (name, _), alike in lines.items():
        found += [_line(name, alike)] if len(alike) >= LEAST_FOLDED and _foldable(alike[0]) else alike
    return tuple(found)


def _host(row: Compared) -> str:
    return Part.of(row.component).host


def _as_a_whole(alike: Sequence[Compared]) -> bool:
    names = {row.component for row in alike}
    return _host(alike[0]) in names or len(names) > MOST_PARTS


def _key(row: Compared, whole: AbstractSet[_Key]) -> _Key:
    """What a row's line is of; SAME and rows of several hosts are together with their like and stay as they are."""
    host = (_host(row), row.change)
    return host if _foldable(row) and host in whole else (row.component, row.change)


def _foldable(row: Compared) -> bool:
    """Of one host or a part of one; everything, paths and switches have rows of their own."""
    host = Part.of(row.component).host
    return (
        row.change is not Difference.SAME and row.component != WHOLE and "+" not in row.component and "--" not in host
    )


def _line(name: str, alike: Sequence[Compared]) -> Compared:
    """The worst row in the name of what all are of."""
    worst = alike[0]
    names = dict.fromkeys(row.component for row in alike)
    kinds = dict.fromkeys(row.kind for row in alike)
    parts = f" of {len(names)} components" if len(names) > 1 else ""
    shown = f": {worst.component}" if worst.component != name else ""
    said = f"worst of {len(alike)} rows{parts} ({', '.join(kinds)}){shown}; all of them: --json"
    return replace(worst, component=name, note="; ".join(text for text in (worst.note, said) if text))


EXIT_CODES = {Difference.BETTER: 0, Difference.SAME: 0, Difference.WORSE: 1, Difference.INCONCLUSIVE: 3}
"""What a comparison means to the shell: 0 the same or better, 1 worse, 3 it cannot be told."""

COMPARE_FORMAT = 1

_MEANING = {
    Difference.BETTER: "nothing became worse, and something better",
    Difference.SAME: "of what both measured, nothing changed by more than what matters",
    Difference.WORSE: "something became worse",
    Difference.INCONCLUSIVE: "not enough was measured to tell",
}

_MOST_ROWS = 20


def compare_lines(first: str, second: str, comparison: Comparison, notes: Sequence[str]) -> list[str]:
    """The answer first, then what changed, the worst first, then what could not be compared."""
    change = comparison.change
    meaning = _MEANING[change] if comparison.common else "nothing in common: no probe was measured in both runs"
    lines = [f"{change.name}  {meaning}"]
    tally = ", ".join(
        f"{number} {kind.value}"
        for kind in Difference
        if (number := sum(row.change is kind for row in comparison.rows))
    )
    lines.append(f"      {_in_both(comparison)}; components by kind and size: {tally or 'none'}")
    lines_of = folded(comparison.rows)
    for kind in (Difference.WORSE, Difference.INCONCLUSIVE, Difference.BETTER):
        rows = [row for row in lines_of if row.change is kind]
        if rows:
            lines += ["", f"{kind.value.capitalize()} (second over first, 99 % interval)"]
            lines += [f"  {line}" for line in columns(_cells(row) for row in rows[:_MOST_ROWS])]
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
    text = f"{counted(comparison.common, 'probe')} in both"
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
        **jsonable(comparison, ("common", "measured_first", "measured_second", "unmeasured")),
        **jsonable(comparison, ("rows", "only_first", "only_second")),
        "notes": list(notes),
    }


def _cells(row: Compared) -> tuple[str, ...]:
    size = size_text(row.size_bytes) if row.size_bytes else ""
    ratio = f"{row.ratio:.3f}" if row.ratio is not None else "-"
    interval = f"{row.low:.3f} to {row.high:.3f}" if row.low is not None and row.high is not None else ""
    return row.component, f"{row.kind} {size}".strip(), ratio, interval, f"n={row.n}", row.note


def _only(which: str, texts: Sequence[str]) -> list[str]:
    return ["", f"Only in the {which} run", *(f"  {text}" for text in texts)] if texts else []
