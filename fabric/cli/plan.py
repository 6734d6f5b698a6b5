"""``fabric plan`` and ``fabric simulate``: what would be, without touching a host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabric.cli.options import (
    PATH,
    WholeNumber,
    answer,
    json_option,
    print_json,
    print_lines,
    reserve_option,
    scenario_options,
)
from fabric.errors import ConfigError
from fabric.model.text import duration_text, fold
from fabric.runs.run_directory import run_path

if TYPE_CHECKING:
    from fabric.app.prepare import Asked, Given


@click.command("plan")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, _, on: _schema(ctx, on))
@scenario_options
@reserve_option
@json_option
def plan_command(given: Given, backend: str | None, *, reserve: bool, as_json: bool, **repair: Any) -> int:
    """Show what SCENARIO would run; touches no host. --schema prints the JSON Schema of scenario files."""
    from fabric.app.prepare import backend_of, refuse_unguarded
    from fabric.app.scheduler import minutes
    from fabric.report.plan import plan_document, plan_text
    from fabric.report.verdict_text import print_coloured

    asked = asked_for(given, outline=True, **repair)
    refuse_unguarded(asked.scenario, backend_of(asked.inventory, backend, given.faults))
    settings, plan = asked.inventory.changes, asked.plan
    gpus = sum(len(asked.inventory.topology.hosts[name].platform.gpus) for name in asked.scenario.hosts)
    hours = gpus * plan.duration_s / 3600  # nobody else can have them meanwhile
    reserved = {"nodes": fold(asked.scenario.hosts), "minutes": minutes(plan)} if reserve else None
    if as_json:
        document = plan_document(plan, asked.scenario, notes=asked.notes, settings=settings)
        takes = {"duration_s": plan.duration_s, "gpus": gpus, "gpu_hours": hours}
        document |= {} if reserved is None else {"reservation": reserved}
        print_json(document | {"cost": takes})
    else:
        print_coloured(plan_text(plan, scenario=asked.scenario, notes=asked.notes, settings=settings))
        print_lines([f"  {hours:,.1f} GPU-hours: {gpus:,} GPUs for {duration_text(plan.duration_s)}"])
        if reserved is not None:
            print_lines([f"  reserved in Slurm: {reserved['nodes']} for {reserved['minutes']:,} min, margin included"])
    return 0


def asked_for(given: Given, *, because: Path | None, quick: bool, links: str | None, outline: bool = False) -> Asked:
    """What is to be run, planned; after a repair filled with what failed. *outline*: only to be shown."""
    from fabric.app.prepare import prepare, require_run

    if because is None:
        for option in (["--quick"] if quick else []) + ([] if links is None else ["--links"]):
            raise ConfigError.at(option, "it goes with --because RUN, after a repair")
        found = prepare(given, outline=outline)
        return found if outline else require_run(found)
    if given.lasts_s is not None:
        raise ConfigError.at("--for", "not with --because: how long that takes follows from what failed")
    if links is not None and given.hosts is not None:
        raise ConfigError.at("--links", "not with --hosts: which hosts are needed follows from what failed")
    from fabric.app.repair import prepare_repair

    return prepare_repair(given, run_path(because), quick=quick, links=links)


def _schema(ctx: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    from fabric.config.schema import scenario_schema

    print_json(scenario_schema())
    ctx.exit(0)


@click.command("simulate")
@click.argument("traffic", metavar="permutation|pairs|ring|all_to_all")
@click.option("--inventory", required=True, type=PATH, help="The network: an inventory file.")
@click.option(
    "--routing", metavar="R[,R...]", help="ftree, updn, minhop, lft_random, ecmp, ar. Default: ftree,updn,ecmp,ar."
)
@click.option("--qps", type=WholeNumber(1, 64), default=1, show_default=True, help="Queue pairs a flow, for ecmp.")
@click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-032], all.")
@click.option("--order", metavar="sorted|random", help="Order of the hosts. Default: random; ring: sorted.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="LINK:KIND[=VALUE]",
    help="E.g. trunk*16:slow=0.25, su0-leaf3--spine02:down, gpu003/mlx5_2:ber=1e-3. May be repeated.",
)
@click.option("--seeds", type=WholeNumber(1, 1000), default=10, show_default=True, help="How many draws.")
@click.option("--seed", type=WholeNumber(0, 2**31), default=0, show_default=True, help="The first draw.")
@json_option
def simulate_command(traffic: str, inventory: Path, *, as_json: bool, **asked: Any) -> int:
    """Ask the simulated network what share of line rate a traffic pattern would get; touches no host."""
    from fabric.config.what_if import load_what_if
    from fabric.report.what_if import what_if_document, what_if_text
    from fabric.sim.what_if import what_if

    found = what_if(load_what_if(traffic, inventory, **asked))
    return answer(what_if_document(found), [what_if_text(found)], as_json=as_json)
