"""``fabric report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import json_option, print_json

if TYPE_CHECKING:
    from fabric.app import Finished


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def command(run: Path, *, as_json: bool) -> int:
    """Show the verdict of RUN (a run directory), made again from what was written down."""
    from fabric import app

    return show(app.analyze(run, baseline_path=None), as_json=as_json)


def show(finished: Finished, *, as_json: bool) -> int:
    """Print a judged run and give its exit code."""
    from fabric.report.console import print_verdict
    from fabric.report.verdict_json import EXIT_CODES, verdict_document

    if as_json:
        document = verdict_document(finished.scenario.name, finished.path.name, finished.verdict)
        print_json({**document, "path": str(finished.path)})
    else:
        print_verdict(
            finished.verdict,
            scenario=finished.scenario,
            path=finished.path,
            elapsed_s=finished.elapsed_s,
            backend=finished.backend,
        )
    return EXIT_CODES[finished.verdict.outcome]
