"""``fabric history`` and ``fabric compare``: many runs, or two."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from fabric.cli.options import PATH, WholeNumber, answer, json_option, results_option
from fabric.runs.run_folders import run_path

DAYS_MOST = 36_500
"""For --days: a century (a choice); more would begin before the calendar does."""


@click.command("history")
@click.argument("component", required=False)
@results_option
@click.option("--days", type=WholeNumber(1, DAYS_MOST), help="Only runs of the last so many days.")
@json_option
def history_command(component: str | None, results: Path, days: int | None, *, as_json: bool) -> int:
    """Every run as COMPONENT (a host, or a part: gpu003/mlx5_2) saw it, and the hosts in trouble again and again."""

    from fabric.app.history import history
    from fabric.report.history import SIGNALS, lines

    found = history(results, component=component, days=days)
    code = 3 if found.closed else 0  # not all that is there was told
    document = asdict(found) if as_json else {}
    for row, one in zip(document.get("signals", ()), found.signals, strict=False):
        row.update(values=dict(zip(SIGNALS, one.values, strict=True)), lemon=one.lemon)
    return answer({"format": 1, **document}, lines(found), as_json=as_json, code=code)


@click.command("compare")
@click.argument("first", metavar="RUN_A", type=PATH)
@click.argument("second", metavar="RUN_B", type=PATH)
@json_option
def compare_command(first: Path, second: Path, *, as_json: bool) -> int:
    """
    Compare RUN_B with RUN_A, before and after: what became better, what worse, by component.

    A RUN is a run directory, or results/<scenario> for its newest.

    Exit 0 the same or better, 1 worse, 3 it cannot be told.
    """
    from fabric.app.compare import compare
    from fabric.report.compare import EXIT_CODES, compare_document, compare_lines

    found = compare(run_path(first), run_path(second))
    told = (found.first, found.second, found.comparison, found.notes)
    return answer(
        compare_document(*told), compare_lines(*told), as_json=as_json, code=EXIT_CODES[found.comparison.change]
    )
