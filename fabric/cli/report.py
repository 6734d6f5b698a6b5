"""``fabric report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import json_option, print_json

if TYPE_CHECKING:
    from fabric.model.judged_run import JudgedRun


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--probe", metavar="ID", help="Print what the commands of this probe printed, instead.")
@json_option
def command(run: Path, probe: str | None, *, as_json: bool) -> int:
    """Show the verdict of RUN (a run directory), as the run was judged when it ended; changes nothing."""
    from fabric import app

    if probe is not None:
        from fabric.report.output import say
        from fabric.report.visible import visible

        say("\n".join(visible(line) for line in app.raw_output(run, probe).splitlines()))
        return 0
    return show(app.analyze(run, baseline_path=None, rewrite=False), as_json=as_json)


def show(judged: JudgedRun, *, as_json: bool) -> int:
    """Print a judged run and give its exit code."""
    from fabric.report.console import print_verdict
    from fabric.report.verdict_json import exit_code, verdict_document

    if as_json:
        print_json(verdict_document(judged))
    else:
        print_verdict(judged)
    return exit_code(judged.verdict)
