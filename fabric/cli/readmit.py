"""``fabric readmit``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option, print_json


@click.command("readmit")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@json_option
def command(run: Path, hosts: tuple[str, ...], *, as_json: bool) -> int:
    """
    Let each HOST into RUN again, after a repair: it is measured from the next phase on, and judged from then on.
    Where no phase is left, what was measured before stands, and the verdict says so.

    HOST is a name or a set of names, gpu[003,011]; all: every host that is out of the run.
    """
    from dataclasses import asdict

    from fabric.app.status import readmit
    from fabric.model.names import fold
    from fabric.report.output import say
    from fabric.report.visible import visible

    found = readmit(run, hosts)
    if as_json:
        print_json({**asdict(found), "exit_code": 0})
        return 0
    when = "from its next phase on, if one is left" if found.at_work else f"when it goes on: {found.go_on}"
    say(visible(f"{found.run}: {fold(found.hosts)} will take part again {when}"))
    return 0
