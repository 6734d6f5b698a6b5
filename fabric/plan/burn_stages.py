"""A phase that burns links in becomes one phase a stage: phases are what waits for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fabric.errors import ConfigError, Problem
from fabric.model.inventory import Inventory
from fabric.model.scenario import Phase, Scenario
from fabric.model.topology import Topology
from fabric.probes.link_burn import BurnFlow, LinkBurnSpec

if TYPE_CHECKING:
    from fabric.plan.link_coverage import CoveragePlan, LikelyPlan, Stage
    from fabric.sim.net.named_clos import NamedClos

_NAMED = 4  # links named in a line; the rest are counted
_HASHES = 16  # of ECMP: what the unluckiest flow of so many draws is left is what each must reach; a choice


def staged(scenario: Scenario, inventory: Inventory) -> tuple[Scenario, tuple[str, ...]]:
    """
    The scenario with every ``link_burn`` worked out, and lines that say what its stages cover.

    A stage ends with its last flow before the next begins, or links would carry what they were not planned for. Stage
    2 of ``burn`` is the phase ``burn-s2``, which a report still calls ``burn``; what needs ``burn`` needs every stage.
    Other probes of the phase run with its first stage's. Raises ConfigError where no stages can be planned.
    """
    if not any(_is_open(spec) for phase in scenario.phases for spec in phase.probes):
        return scenario, ()
    parts: dict[str, list[Phase]] = {}
    lines: list[str] = []
    for phase in scenario.phases:
        parts[phase.name], said = _staged(phase, scenario, inventory)
        lines += [f"{phase.name}: {line}" for line in said]
    of = {name: [part.name for part in made] for name, made in parts.items()}
    phases = [
        replace(part, needs=tuple(name for need in part.needs for name in of.get(need, [need])))
        for made in parts.values()
        for part in made
    ]
    names = [phase.name for phase in phases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        text = f"a stage and another phase are both called {', '.join(twice)}"
        raise ConfigError([Problem(scenario.source, 0, text)])
    return replace(scenario, phases=tuple(phases)), tuple(lines)


def _is_open(spec: object) -> bool:
    return isinstance(spec, LinkBurnSpec) and not spec.stages


def _staged(phase: Phase, scenario: Scenario, inventory: Inventory) -> tuple[list[Phase], list[str]]:
    """Its phases, one a stage, and what they cover; a spec that has its stages already is one of them."""
    others = tuple(spec for spec in phase.probes if not isinstance(spec, LinkBurnSpec))
    stages: list[LinkBurnSpec] = []
    lines: list[str] = []
    for spec in phase.probes:
        if isinstance(spec, LinkBurnSpec) and spec.stages:
            stages.append(spec)
        elif isinstance(spec, LinkBurnSpec):
            try:
                routing = _routing(spec.routing, phase, inventory)
                flows, said = burn(inventory.topology, scenario.hosts, routing=routing)
            except ValueError as exc:
                raise ConfigError([Problem(scenario.source, 0, f"{phase.name}: {spec.name}: {exc}")]) from exc
            stages += spec.changed(stages=flows, routing=routing).one_by_one()
            lines += said
    if not stages:
        return [phase], lines
    names = [phase.name] if len(stages) == 1 else [f"{phase.name}-s{number + 1}" for number in range(len(stages))]
    made = [
        replace(phase, probes=(*(() if number else others), spec), name=name, label=phase.written)
        for number, (name, spec) in enumerate(zip(names, stages, strict=True))
    ]
    return made, lines


def _routing(asked: str | None, phase: Phase, inventory: Inventory) -> str:
    """
    By which routes to plan; ValueError where nobody says it, or where the scenario says otherwise than the inventory.

    A phase that alters the routing knows it better than the inventory. ``ecmp`` plans for a hash that nobody knows, and
    so for any.
    """
    known = inventory.routes_by if inventory.topology.uplinks else asked or "ftree"  # else nothing is routed
    known = "ecmp" if known == "lft_random" else known
    if asked is None and known is None:
        raise ValueError(
            f"how do the switches of {inventory.name} choose paths? Say it in {inventory.source}: 'routing: ar' "
            "(adaptive), 'ecmp', or OpenSM's 'ftree', 'updn' or 'minhop'. A plan for other routes leaves links idle"
        )
    if asked in (None, known) or known is None or asked == "ecmp" or phase.changes:
        return asked or known or "ecmp"
    raise ValueError(
        f"it is planned for 'routing: {asked}', and {inventory.source} routes by {known}: flows would share links, and "
        f"others stay idle. Leave 'routing' out, or correct the inventory"
    )


def burn(
    topology: Topology, hosts: Sequence[str], *, routing: str
) -> tuple[tuple[tuple[BurnFlow, ...], ...], tuple[str, ...]]:
    """
    The stages that burn in the links between these hosts, and lines: how many, how few are possible, what they cover.

    *routing*: ftree, updn or minhop (OpenSM's tables), ar (adaptive), ecmp (a hash that nobody knows). Raises
    ValueError where the network is not a regular fat tree.
    """
    import numpy as np  # only where links are burned in

    from fabric.plan.link_coverage import plan_by_chance, plan_coverage, routed_fabric
    from fabric.sim.net.named_clos import net_from_topology

    named = net_from_topology(topology, above_leaves=bool(topology.uplinks))
    taking_part = frozenset(hosts)
    usable = np.array([host in taking_part for host, _ in named.ends])
    make = partial(routed_fabric, named.clos, routing=routing, usable=usable, part=named.part)
    if routing == "ecmp" and topology.uplinks:
        likely = plan_by_chance(lambda salt: make(salt=salt))
        drawn = [make(salt=salt) for salt in range(_HASHES)]
        worst = [min(min(net.shares(stage)) for net in drawn) for stage in likely.stages]
        shares = [[least] * len(stage.src) for stage, least in zip(likely.stages, worst, strict=True)]
        return _flows(named, likely.stages, shares), tuple(_likely_lines(likely))
    plan = plan_coverage(net := make())
    return _flows(named, plan.stages, map(net.shares, plan.stages)), tuple(_lines(plan, named, routing))


def _flows(
    named: NamedClos, stages: Sequence[Stage], shares: Iterable[Sequence[int]]
) -> tuple[tuple[BurnFlow, ...], ...]:
    made = []
    for stage, left in zip(stages, shares, strict=True):
        src, dst = ([named.ends[nic] for nic in ends.tolist()] for ends in (stage.src, stage.dst))
        flows = zip(src, dst, left, strict=True)
        made.append(tuple(BurnFlow(host, rnic, peer, to, share) for (host, rnic), (peer, to), share in flows))
    return tuple(made)


def _lines(plan: CoveragePlan, named: NamedClos, routing: str) -> Iterator[str]:
    routes = f"routes: {routing}" if named.clos.spec.up else "no uplinks are given: only cables of hosts are loaded"
    yield f"{_counted(plan.stages)} ({plan.bound} at least, whatever the plan); {routes}"
    for tier in plan.tiers:
        text = f"{tier.name}: {tier.covered:,} of {tier.links:,} links at half their rate or more"
        yield text + (f"; no traffic can load {tier.never:,}" if tier.never else "")
    name = named.trunk_name if routing == "ar" else named.link_name
    for what, ids in (("no traffic can load", plan.never), ("left out", plan.missed)):
        if ids:
            shown = ", ".join(name(link) for link in ids[:_NAMED])
            yield f"{what}: {shown}{f' and {len(ids) - _NAMED:,} more' if len(ids) > _NAMED else ''}"


def _likely_lines(plan: LikelyPlan) -> Iterator[str]:
    yield f"{_counted(plan.stages)} at random: which links ECMP takes cannot be known before"
    yield f"probability that every link reaches half its rate: {plan.likely:.2f} or more"
    for name, part in plan.each:
        yield f"{name}: one stage covers {part:.0%} of the links on average"


def _counted(stages: Sequence[Stage]) -> str:
    return f"{len(stages)} stage{'' if len(stages) == 1 else 's'}"
