"""``fabric inventory``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import PATH, json_option, print_json


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
    if as_json:
        print_json(inventory_document(inventory, notes=notes))
        return 0
    for line in inventory_lines(inventory, notes=notes):
        click.echo(line)
    return 0
