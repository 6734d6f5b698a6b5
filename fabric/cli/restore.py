"""``fabric restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import PATH, json_option, print_json, results_option
from fabric.report.output import say, warn

if TYPE_CHECKING:
    from fabric.app.restore import Restored


@click.command("restore")
@click.argument("run", required=False, type=PATH)
@results_option
@click.option("--all-hosts", is_flag=True, help="Ask the guards on every host of --inventory instead of a journal.")
@click.option(
    "--inventory",
    type=PATH,
    help="How to reach hosts: with --all-hosts, or a RUN without run.json.",
)
@click.option("--backend", metavar="NAME", help="With --inventory: mock, ssh or process; default: the inventory's.")
@json_option
def restore_command(
    run: Path | None, results: Path, inventory: Path | None, backend: str | None, *, all_hosts: bool, as_json: bool
) -> int:
    """Take back what RUN (a run directory), or every run under --results, may have left on the fabric."""
    from fabric.app.restore import in_order, restore, restore_hosts
    from fabric.wiring import make_executor

    if all_hosts and inventory is None:
        raise click.UsageError("--all-hosts needs --inventory FILE")
    if inventory is not None and not all_hosts and run is None:
        raise click.UsageError("--inventory needs a RUN, or --all-hosts")
    if backend is not None and inventory is None:
        raise click.UsageError("--backend needs --inventory FILE")
    if all_hosts and run is not None:
        raise click.UsageError("give either a run or --all-hosts")
    where = f"in {run}" if run is not None else f"under {results.absolute()}"
    if inventory is None and run is None and not results.is_dir():
        raise click.UsageError(f"{results.absolute()} is no folder of runs: give a run, or --results")
    with in_order(warn):
        if all_hosts and inventory is not None:
            where = f"on the hosts of {inventory}"
            found = restore_hosts(inventory, backend=backend, make_executor=make_executor)
        else:
            found = restore(
                run, results=results, make_executor=make_executor, inventory_path=inventory, backend=backend
            )
    return _show(found, where=where, as_json=as_json)


def _show(found: list[Restored], *, where: str, as_json: bool) -> int:
    """Exit 0 when nothing is left, 4 when something may be."""
    from fabric.report.restored import restored_json, restored_lines

    code = 0 if all(one.certain for one in found) else 4
    if as_json:
        print_json({"changes": restored_json(found), "exit_code": code})
        return code
    for line in restored_lines(found):
        say(line)
    if not found:
        say(f"no change is open {where}")
    elif code:
        say("A change may still be live: see above; run it again, or undo it by hand.")
    return code
