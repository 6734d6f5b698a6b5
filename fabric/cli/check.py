"""``fabric check`` and ``fabric inventory``: look before you measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fabric.cli.options import PATH, answer, json_option, overrides, print_json


@click.command("check")
@click.argument("scenario", required=False, type=PATH)
@overrides
@json_option
def check_command(
    scenario: Path | None,
    inventory: Path | None,
    lasts_s: float | None,
    budget_s: float | None,
    *,
    as_json: bool,
    **asked: Any,
) -> int:
    """
    Look before you measure: does every host have what SCENARIO needs? Without one: what --inventory describes.

    What a host needs is the same however long the run lasts: --for and --budget are taken as plan and run take them.
    """
    del lasts_s, budget_s
    from fabric.app.check import check
    from fabric.report.check import check_document, print_check
    from fabric.wiring import make_executor

    found = check(scenario, inventory_path=inventory, make_executor=make_executor, **asked)
    if as_json:
        print_json(check_document(found))
    else:
        print_check(found)
    return found.exit_code


@click.group("inventory")
def inventory_command() -> None:
    """Show an inventory, or the schema of its file."""


@inventory_command.command("schema")
def schema() -> int:
    """Print the JSON Schema of inventory files, for an editor."""
    from fabric.config import inventory_schema

    print_json(inventory_schema())
    return 0


@inventory_command.command("show", short_help="Check an inventory file, and say what it describes.")
@click.argument("file", type=PATH)
@json_option
def show(file: Path, *, as_json: bool) -> int:
    """Check FILE and the baselines that it names, and say what it describes and what does not fit."""
    from fabric.config import baseline_notes, load_baselines, load_inventory
    from fabric.report.inventory import inventory_document, inventory_lines

    inventory = load_inventory(file)
    baselines = load_baselines({host.platform.baseline for host in inventory.topology.hosts.values()}, file)
    notes = baseline_notes(None, inventory, baselines)
    document, lines = inventory_document(inventory, notes=notes), inventory_lines(inventory, notes=notes)
    return answer(document, lines, as_json=as_json)
