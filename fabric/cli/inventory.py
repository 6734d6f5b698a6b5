"""``fabric inventory``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import print_json


@click.group("inventory")
def command() -> None:
    """Show an inventory, or the schema of its file."""


@command.command("schema")
def schema() -> int:
    """Print the JSON Schema of inventory files, for an editor."""
    from fabric.config import inventory_schema

    print_json(inventory_schema())
    return 0


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> int:
    """Check FILE and say what it describes."""
    from fabric.config import load_inventory
    from fabric.report.inventory_text import inventory_lines

    for line in inventory_lines(load_inventory(file)):
        click.echo(line)
    return 0
