"""``fabric diagnose``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import Number, json_option, print_json

_FORMATS = ("auto", "csv", "nccl-tests", "perftest", "superbench", "clusterkit", "mpigraph")


@click.command("diagnose")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--inventory", type=click.Path(path_type=Path), help="Says which hosts share a leaf: an inventory file.")
@click.option("--format", "format_name", type=click.Choice(_FORMATS), default="auto", show_default=True)
@click.option(
    "--limit",
    "limit_gbps",
    metavar="GBPS",
    type=Number(0.001, 1e6),
    help="The least that is acceptable, Gb/s: what is slow as a whole has no outlier.",
)
@click.option(
    "--floor",
    "floor_percent",
    metavar="PERCENT",
    type=Number(0.5, 50),
    default=3.0,
    show_default=True,
    help="The smallest loss worth naming.",
)
@json_option
def command(
    files: tuple[Path, ...],
    inventory: Path | None,
    format_name: str,
    limit_gbps: float | None,
    floor_percent: float,
    *,
    as_json: bool,
) -> int:
    """Say which part is bad, from pair results of any tool: FILES hold who was measured with whom, and how fast."""
    from fabric.app.diagnose import diagnose_files
    from fabric.report.diagnosis_json import diagnosis_document
    from fabric.report.diagnosis_text import diagnosis_text
    from fabric.report.output import say
    from fabric.report.verdict_json import EXIT_CODES

    diagnosis, notes = diagnose_files(
        files, inventory=inventory, format_name=format_name, limit_gbps=limit_gbps, floor=floor_percent / 100
    )
    if as_json:
        print_json(diagnosis_document(diagnosis, notes))
    else:
        say(diagnosis_text(diagnosis, notes))
    return EXIT_CODES[diagnosis.outcome]
