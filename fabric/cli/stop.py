"""``fabric stop``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import WholeNumber, json_option, print_json

if TYPE_CHECKING:
    from fabric.app.status import Stopped

WAIT_S = 600
"""Default for --timeout: taking changes back takes at most a lease and its checks, a probe's end seconds (a choice)."""


@click.command("stop")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--no-wait", is_flag=True, help="Ask, and do not wait until it has ended.")
@click.option("--timeout", "wait_s", type=WholeNumber(1, 86_400), default=WAIT_S, show_default=True, metavar="SECONDS")
@json_option
def command(run: Path, wait_s: int, *, no_wait: bool, as_json: bool) -> int:
    """
    End RUN, which goes on in another terminal or on another machine: probes first, then its changes, with read-back.

    Exit 0 it has ended, 3 not yet, 4 a change may still be live.
    """
    from dataclasses import asdict

    from fabric.app.status import stop

    found = stop(run, wait_s=0.0 if no_wait else float(wait_s))
    code = 0 if no_wait else found.exit_code
    if as_json:
        print_json({**asdict(found), "exit_code": code})
    else:
        _say(found, waited=not no_wait)
    return code


def _say(found: Stopped, *, waited: bool) -> None:
    from fabric.report.output import say
    from fabric.report.visible import visible

    if not found.ended:
        how = f"not ended after {found.took_s:.0f} s" if waited else "asked to stop"
        say(visible(f"{found.run}: {how}; see: fabric status {found.run}"))
        return
    end = "it had reached its own end" if found.finished else f"to go on: {found.go_on}"
    say(visible(f"{found.run}: ended after {found.took_s:.1f} s; {end}"))
    for name in found.taken_back:
        say(visible(f"taken back   {name}"))
    for name in found.still_open:
        say(visible(f"MAY BE LIVE  {name}; fabric restore {found.run}"))
