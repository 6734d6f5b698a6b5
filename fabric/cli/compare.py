"""``fabric compare``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option, print_json


@click.command("compare")
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B", type=click.Path(path_type=Path))
@json_option
def command(first: Path, second: Path, *, as_json: bool) -> int:
    """
    Compare RUN_B with RUN_A, before and after: what became better, what worse, by component.

    A RUN is a run directory, or results/<scenario> for its newest.

    Exit 0 the same or better, 1 worse, 3 it cannot be told.
    """
    from fabric.app.compare import compare
    from fabric.cli.report import newest
    from fabric.report.compare_text import EXIT_CODES, compare_document, compare_lines
    from fabric.report.output import say
    from fabric.report.visible import visible

    found = compare(newest(first), newest(second))
    told = (found.first, found.second, found.comparison, found.notes)
    if as_json:
        print_json(compare_document(*told))
    else:
        say("\n".join(visible(line) for line in compare_lines(*told)))
    return EXIT_CODES[found.comparison.change]
