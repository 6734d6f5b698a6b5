"""``fabric resume``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option
from fabric.cli.report import show


@click.command("resume")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Go on as it was asked then, though files or this tool have changed.")
@click.option("--yes", is_flag=True, help="Alter a real fabric without asking.")
@click.option("--no-html", is_flag=True, help="Leave out report.html, junit.xml, metrics.prom and summary.md.")
@json_option
def command(run: Path, *, force: bool, yes: bool, no_html: bool, as_json: bool) -> int:
    """
    Go on with RUN (a run directory, or results/<scenario> for its newest), which was killed, interrupted or stopped.

    What it may have left on the fabric is taken back first; finished probes are kept, half-done ones begin again.
    """
    from fabric.app.resume import look, resume
    from fabric.cli.run import agree
    from fabric.config.baseline_fit import out_of_reach_line
    from fabric.engine.interruption import interrupt_when_told_to_end
    from fabric.report.output import warn
    from fabric.report.progress import ConsoleProgress, planning
    from fabric.report.visible import visible
    from fabric.wiring import BACKENDS

    interrupt_when_told_to_end()

    def say(text: str) -> None:
        if not as_json:
            warn(visible(text))

    with planning():
        found = look(run, force=force)
    for text in found.differs:
        say(f"gone on all the same: {text}")
    note = out_of_reach_line(found.asked.scenario, found.asked.inventory, found.asked.baselines)
    if note is not None:
        say(f"note: {note}")
    if found.backend != "mock":
        agree(found.asked, yes=yes)
    addresses = {host.name: host.address for host in found.asked.inventory.topology.hosts.values()}
    with ConsoleProgress(quiet=as_json, addresses=addresses) as progress:
        judged = resume(
            found,
            make_executor=lambda backend, inventory, seed: BACKENDS[backend](inventory, seed),
            observer=progress,
            say=say,
            reports=not no_html,
        )
    return show(judged, as_json=as_json)
