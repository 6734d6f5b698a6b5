"""Every measurement of a run as columns of small numbers: 400,000 rows in a few megabytes of a page."""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.verdict import ProbeVerdict
from fabric.report.html.shares import Label
from fabric.report.output import visible
from fabric.report.shown_run import Row, ShownRun

MOST_PROBES = 450_000
"""More than this are not put into the page: it says so, and measurements.parquet has them all (a choice)."""

MOST_REASONS = 2000
_REASON = 240
_OUTCOMES = list(Outcome)


class _Numbered:
    """Values with a number each, in order of first sight."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.numbers)
        return number


def table(run: ShownRun, normal: Mapping[Label, float]) -> dict[str, Any]:
    """
    JSON-able; typed arrays are little-endian, base64.

    Per probe: who, what, outcome, limit, shape (which metrics and sizes), reason. Per measurement: the value. The
    series is part of *what* where one host measures alone; that of several hosts only repeats who they are.
    """
    rows = _chosen(run.rows)
    who, what, shapes, limits, reasons = _Numbered(), _Numbered(), _Numbered(), _Numbered(), _Numbered()
    reasons.of("")
    columns: dict[str, list[int]] = {name: [] for name in ("who", "what", "limit", "shape", "reason", "outcome")}
    into = [columns[name].append for name in ("who", "what", "limit", "shape", "reason", "outcome")]
    to_who, to_what, to_limit, to_shape, to_reason, to_outcome = into
    place = {outcome: number for number, outcome in enumerate(_OUTCOMES)}
    values: list[float] = []
    for row in rows:
        probe, verdict, result = row
        measured = result.measurements if result is not None and result.outcome is None else ()
        to_who(who.of(probe.hosts))
        to_what(what.of((probe.phase, probe.kind, row.series if len(probe.hosts) == 1 else "", _name(probe.probe_id))))
        to_limit(limits.of(verdict.limit_gbps))
        to_reason(_reason(row, reasons) if verdict.reason else 0)
        to_outcome(place[verdict.outcome])
        if len(measured) == 1:
            only = measured[0]
            to_shape(shapes.of(((only.metric, only.size_bytes, only.unit),)))
            values.append(only.value)
        else:
            to_shape(shapes.of(tuple([(m.metric, m.size_bytes, m.unit) for m in measured])))
            values.extend([m.value for m in measured])
    return {
        "outcomes": [outcome.value for outcome in _OUTCOMES],
        "hosts": [visible(host) for host in run.judged.scenario.hosts],
        "who": _participants(who.numbers, run.judged.scenario.hosts),
        "what": [[visible(word) for word in key[:2]] + [visible(key[3])] for key in what.numbers],
        "normal": [_rounded(normal.get((key[1], key[2]))) for key in what.numbers],
        "limits": list(limits.numbers),
        "shapes": [[[visible(m), size, visible(unit)] for m, size, unit in shape] for shape in shapes.numbers],
        "reasons": list(reasons.numbers),
        "left_out": len(run.rows) - len(rows),
        "columns": {
            **{name: _packed(_smallest(column)) for name, column in columns.items()},
            "value": _packed(array("f", values)),
        },
    }


def _chosen(rows: tuple[Row, ...]) -> Sequence[Row]:
    """All of them; of too many those that did not pass, and then the first."""
    if len(rows) <= MOST_PROBES:
        return rows
    bad = [row for row in rows if row.verdict.outcome is not Outcome.PASS][:MOST_PROBES]
    good = (row for row in rows if row.verdict.outcome is Outcome.PASS)
    return [*bad, *(row for row, _ in zip(good, range(MOST_PROBES - len(bad)), strict=False))]


def _name(probe_id: str) -> str:
    """What was measured, repetition included: the last part of the id without the probe's own name."""
    last = probe_id.rpartition("/")[2]
    return last.partition(".")[2] or last


def _reason(row: Row, reasons: _Numbered) -> int:
    """A measured value below its limit says so by its numbers; of others that did not pass the words are kept."""
    verdict = row.verdict
    if not verdict.reason or (verdict.value_gbps is not None and _said_by_numbers(verdict)):
        return 0
    if len(reasons.numbers) >= MOST_REASONS:
        return (
            reasons.of("and more reasons: see verdict.json") if len(reasons.numbers) == MOST_REASONS else MOST_REASONS
        )
    return reasons.of(visible(row.verdict.reason)[:_REASON])


def _said_by_numbers(verdict: ProbeVerdict) -> bool:
    """Whether it passed, or is below what is required: the row shows both numbers."""
    below = (
        verdict.value_gbps is not None and verdict.limit_gbps is not None and verdict.value_gbps < verdict.limit_gbps
    )
    return verdict.outcome is Outcome.PASS or below


def _participants(numbers: Mapping[tuple[str, ...], int], hosts: tuple[str, ...]) -> list[Any]:
    """The host's number where it is one; its text and the numbers of all where there are more."""
    place = {host: number for number, host in enumerate(hosts)}
    found: list[Any] = []
    for names in numbers:
        members = [place[name] for name in names if name in place]
        if len(names) == 1 and members:
            found.append(members[0])
        elif len(names) == 2:
            found.append([visible(" + ".join(names)), members])
        else:
            found.append([visible(fold(names)), members])
    return found


def _smallest(column: list[int]) -> array[int]:
    """As an array of the fewest bytes that hold it: one for the outcome, two for most."""
    most = max(column, default=0)
    return array("B" if most < 1 << 8 else "H" if most < 1 << 16 else "I", column)


def _packed(column: array[Any]) -> dict[str, str]:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return {"type": column.typecode, "data": b64encode(column.tobytes()).decode()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
