"""``fabric restore``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import PATH, answer, json_option, results_option
from fabric.report.output import warn


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
    from fabric.report.restored import restored_json, restored_lines
    from fabric.wiring import make_executor

    wrong = {
        "--all-hosts needs --inventory FILE": all_hosts and inventory is None,
        "--inventory needs a RUN, or --all-hosts": inventory is not None and not all_hosts and run is None,
        "--backend needs --inventory FILE": backend is not None and inventory is None,
        "give either a run or --all-hosts": all_hosts and run is not None,
    }
    for text in (text for text, found in wrong.items() if found):
        raise click.UsageError(text)
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
    code = 0 if all(one.certain for one in found) else 4
    lines = restored_lines(found) if found else [f"no change is open {where}"]
    if code:
        lines = [*lines, "A change may still be live: see above; run it again, or undo it by hand."]
    return answer({"changes": restored_json(found), "exit_code": code}, lines, as_json=as_json, code=code)
