"""``fabric check``."""

from __future__ import annotations

from pathlib import Path

import click

from fabric.cli.options import PATH, backend_option, json_option, print_json


@click.command("check")
@click.argument("scenario", required=False, type=PATH)
@click.option("--inventory", type=PATH, help="Use this inventory file instead.")
@click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-004], all.")
@backend_option
@click.option("--fault", "faults", multiple=True, metavar="COMPONENT:KIND", help="Mock: break something first.")
@json_option
def check_command(
    scenario: Path | None,
    inventory: Path | None,
    hosts: str | None,
    backend: str | None,
    faults: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Look before you measure: does every host have what SCENARIO needs? Without one: what --inventory describes."""
    from fabric.app.check import check
    from fabric.report.check import check_document, print_check
    from fabric.wiring import make_executor

    found = check(
        scenario, inventory_path=inventory, hosts=hosts, faults=faults, backend=backend, make_executor=make_executor
    )
    if as_json:
        print_json(check_document(found))
    else:
        print_check(found)
    return found.exit_code
