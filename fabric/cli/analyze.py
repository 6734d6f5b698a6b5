"""``fabric analyze``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option
from fabric.cli.report import newest, show


@click.command("analyze")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--baseline", type=click.Path(path_type=Path), help="Judge by this baseline file instead.")
@json_option
def command(run: Path, baseline: Path | None, *, as_json: bool) -> int:
    """
    Judge RUN (a run directory, or results/<scenario> for its newest) again.

    Rewrites what is derived, never what was measured.
    """
    from fabric.app.analyze import analyze

    return show(analyze(newest(run), baseline_path=baseline, rewrite=True), as_json=as_json)
