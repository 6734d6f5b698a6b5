"""``fabric plan``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import json_option, print_json, scenario_options


@click.command("plan")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, _, on: _schema(ctx, on))
@scenario_options
@json_option
def command(
    scenario: Path, inventory: Path | None, hosts: str | None, faults: tuple[str, ...], *, as_json: bool
) -> int:
    """Show what SCENARIO would run; touches no host. --schema prints the JSON Schema of scenario files."""
    from fabric import app
    from fabric.report.console import print_plan
    from fabric.report.plan_json import plan_document

    asked = app.prepare(scenario, inventory_path=inventory, hosts=hosts, faults=faults)
    settings = asked.inventory.changes
    if as_json:
        print_json(plan_document(asked.plan, asked.scenario, notes=asked.notes, settings=settings))
    else:
        print_plan(asked.plan, scenario=asked.scenario, notes=asked.notes, settings=settings)
    return 0


def _schema(ctx: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    from fabric.config import scenario_schema

    print_json(scenario_schema())
    ctx.exit(0)
