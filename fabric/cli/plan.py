"""``fabric plan``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabric.cli.options import json_option, lasting_option, print_json, scenario_options, seconds

if TYPE_CHECKING:
    from fabric.model.topology import Topology
    from fabric.plan.budget import Chosen, Covers
    from fabric.plan.cost import Cost, Load

_NAMED = 4  # components named in a line; the rest are counted
_MOST_S = 30 * 86_400  # of --budget; a choice


@click.command("plan")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=lambda ctx, _, on: _schema(ctx, on))
@click.option("--budget", metavar="TIME", help="Only what fits into this time, the most telling first: 4h, 90m.")
@scenario_options
@lasting_option
@json_option
def command(
    scenario: Path,
    inventory: Path | None,
    hosts: str | None,
    faults: tuple[str, ...],
    lasts: str | None,
    *,
    budget: str | None,
    as_json: bool,
) -> int:
    """Show what SCENARIO would run; touches no host. --schema prints the JSON Schema of scenario files."""
    from fabric import app
    from fabric.plan.budget import within
    from fabric.plan.cost import cost
    from fabric.report.console import print_plan
    from fabric.report.output import say
    from fabric.report.plan_json import plan_document

    budget_s = None if budget is None else _seconds(budget)
    asked = app.prepare(scenario, inventory_path=inventory, hosts=hosts, faults=faults, lasts_s=seconds(lasts, "--for"))
    settings, topology = asked.inventory.changes, asked.inventory.topology
    chosen = None if budget_s is None else within(asked.plan, budget_s, _covers(topology))
    plan = asked.plan if chosen is None else chosen.plan
    takes = cost(plan, asked.scenario, topology)
    if as_json:
        document = plan_document(plan, asked.scenario, notes=asked.notes, settings=settings)
        print_json(document | {"cost": _cost_document(takes), "budget": _budget_document(chosen, budget_s)})
    else:
        print_plan(plan, scenario=asked.scenario, notes=asked.notes, settings=settings)
        say("\n".join((*_cost_lines(takes), *_budget_lines(chosen, budget))))
    return 0


def _seconds(budget: str) -> float:
    """The time that is given; refuses what is no duration."""
    from pydantic_core import PydanticCustomError

    from fabric.config.quantities import Duration

    try:
        return float(Duration(1, _MOST_S).parse(budget))
    except PydanticCustomError as exc:
        raise click.BadParameter(exc.message(), param_hint="--budget") from exc


def _covers(topology: Topology) -> Covers:
    """What a probe would show, part by part; pairs and groups of hosts are no parts."""
    from fabric.analysis.candidates import components_of
    from fabric.model.probe import Probe

    def covers(probe: Probe) -> Iterator[tuple[str, str]]:
        found = [
            (part.kind, part.name) for part in components_of(probe, topology) if part.kind not in ("pair", "group")
        ]
        return iter(found or [("claim", claim) for claim in probe.claims])

    return covers


def _cost_lines(takes: Cost) -> Iterator[str]:
    from fabric.model.units import duration_text
    from fabric.report.counted import counted

    yield f"  {takes.gpu_hours:,.1f} GPU-hours: {takes.gpus:,} GPUs for {duration_text(takes.duration_s)}"
    for what, loads in (("host", takes.hosts), ("leaf", takes.leaves)):
        if loads:
            most, least = loads[0], loads[-1]
            mean_s = sum(load.work_s for load in loads) / len(loads)
            yield (
                f"  load of a {what}: {duration_text(mean_s)} of probes on average, most on {most.name} "
                f"({counted(most.probes, 'probe')}, {duration_text(most.work_s)}), least on {least.name} "
                f"({least.probes:,}, {duration_text(least.work_s)})"
            )


def _budget_lines(chosen: Chosen | None, budget: str | None) -> Iterator[str]:
    from fabric.report.counted import counted

    if chosen is None:
        return
    yield f"\n  within {budget}: {chosen.covered:,} of {chosen.coverable:,} components"
    for phase, number in chosen.dropped:
        yield f"    {phase}: {counted(number, 'probe')} left out"
    by_kind: dict[str, list[str]] = {}
    for kind, name in chosen.uncovered:
        by_kind.setdefault(kind, []).append(name)
    for kind, names in by_kind.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"    not covered: {len(names):,} {kind}: {', '.join(names[:_NAMED])}{more}"


def _cost_document(takes: Cost) -> dict[str, Any]:
    return {
        "duration_s": takes.duration_s,
        "gpus": takes.gpus,
        "gpu_hours": takes.gpu_hours,
        "hosts": [_load_document(load) for load in takes.hosts],
        "leaves": [_load_document(load) for load in takes.leaves],
    }


def _load_document(load: Load) -> dict[str, Any]:
    return {"name": load.name, "probes": load.probes, "work_s": load.work_s}


def _budget_document(chosen: Chosen | None, budget_s: float | None) -> dict[str, Any] | None:
    if chosen is None:
        return None
    return {
        "budget_s": budget_s,
        "covered": chosen.covered,
        "coverable": chosen.coverable,
        "uncovered": [{"kind": kind, "component": name} for kind, name in chosen.uncovered],
        "dropped": dict(chosen.dropped),
    }


def _schema(ctx: click.Context, wanted: bool) -> None:
    if not wanted:
        return
    from fabric.config import scenario_schema

    print_json(scenario_schema())
    ctx.exit(0)
