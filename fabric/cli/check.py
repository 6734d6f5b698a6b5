"""``fabric check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import json_option, print_json

if TYPE_CHECKING:
    from fabric.model.inventory import Inventory
    from fabric.ports import Executor


@click.command("check")
@click.argument("scenario", required=False, type=click.Path(path_type=Path))
@click.option("--inventory", type=click.Path(path_type=Path), help="Use this inventory file instead.")
@click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-004], all.")
@click.option("--backend", metavar="NAME", help="mock, ssh or process; default: what the inventory says.")
@click.option("--fault", "faults", multiple=True, metavar="COMPONENT:KIND", help="Mock: break something first.")
@json_option
def command(
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
    from fabric.report.check_text import check_document, print_check

    found = check(
        scenario, inventory_path=inventory, hosts=hosts, faults=faults, backend=backend, make_executor=_executor
    )
    if as_json:
        print_json(check_document(found))
    else:
        print_check(found)
    return found.exit_code


def _executor(backend: str, inventory: Inventory) -> Executor:
    from fabric.errors import ConfigError, Problem
    from fabric.wiring import BACKENDS

    if backend not in BACKENDS:
        raise ConfigError([Problem("--backend", 0, f"expected one of {', '.join(BACKENDS)}, got {backend!r}")])
    return BACKENDS[backend](inventory, 0)
