"""``fabric history``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import WholeNumber, json_option, print_json

DAYS_MOST = 36_500
"""For --days: a century (a choice); more would begin before the calendar does."""


@click.command("history")
@click.argument("component", required=False)
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--days", type=WholeNumber(1, DAYS_MOST), help="Only runs of the last so many days.")
@json_option
def command(component: str | None, results: Path, days: int | None, *, as_json: bool) -> int:
    """Every run as COMPONENT (a host, or a part: gpu003/mlx5_2) saw it, and the hosts in trouble again and again."""
    from dataclasses import asdict

    from fabric.app.history import history
    from fabric.report.history import SIGNALS, lines
    from fabric.report.output import say
    from fabric.report.visible import visible

    found = history(results, component=component, days=days)
    code = 3 if found.closed else 0  # not all that is there was told
    if as_json:
        document = asdict(found)
        for row, one in zip(document["signals"], found.signals, strict=True):
            row.update(values=dict(zip(SIGNALS, one.values, strict=True)), lemon=one.lemon)
        print_json({"format": 1, **document})
        return code
    say("\n".join("\n".join(visible(part) for part in line.split("\n")) for line in lines(found)))
    return code
