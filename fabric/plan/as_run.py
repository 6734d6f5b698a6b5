"""From a scenario as written to the phases that run: with or without drills, in stages, in rounds that fill a time.

A phase with a duration (``for: 4h``, ``share: 0.25``) becomes as many phases as fill that planned time, decided
beforehand: so a round is planned, has an id, and can be resumed and judged like anything else. Partners differ from
round to round: pairs and drawn groups are chosen anew. A phase that burns links in becomes one phase per stage, because
only phases wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.scenario import DRILLS, PHASES_MOST, FilledTime, Phase, ProbeSpec, Scenario
from fabric.model.text import counted, duration_text, some
from fabric.model.topology import Topology
from fabric.plan import PhasePlan, Plan, plan_scenario
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.link_burn import BurnFlow, LinkBurnSpec
from fabric.probes.pairwise import PairSpec, matches_all, planes_of

if TYPE_CHECKING:
    from fabric.plan.link_coverage import CoveragePlan, LikelyPlan, Stage
    from fabric.sim.net.named_clos import NamedClos


_NAMED = 4  # links named in a line; the rest are counted
_HASHES = 16  # of ECMP: flows must reach the least share that they get among so many draws; a choice


def staged(scenario: Scenario, inventory: Inventory) -> tuple[Scenario, tuple[str, ...]]:
    """
    Work out every ``link_burn`` of a scenario; return it with its stages, and lines that say what they cover.

    A stage ends with its last flow before the next begins; otherwise links would carry flows that they were not planned
    for. Stage 2 of ``burn`` is the phase ``burn-s2``, which a report still calls ``burn``; phases that need ``burn``
    need every stage. Other probes of the phase run with its first stage. Raises ConfigError where no stages can be
    planned.
    """
    if not any(isinstance(spec, LinkBurnSpec) for phase in scenario.phases for spec in phase.probes):
        return scenario, ()
    parts: dict[str, list[Phase]] = {}
    lines: list[str] = []
    for phase in scenario.phases:
        parts[phase.name], coverage = _in_stages(phase, scenario, inventory)
        lines += [f"{phase.name}: {line}" for line in coverage]
    of = {name: [part.name for part in made] for name, made in parts.items()}
    phases = [
        replace(part, needs=tuple(name for need in part.needs for name in of.get(need, [need])))
        for made in parts.values()
        for part in made
    ]
    names = [phase.name for phase in phases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        text = f"a stage and another phase are both called {', '.join(twice)}"
        raise ConfigError.at(scenario.source, text)
    return replace(scenario, phases=tuple(phases)), tuple(lines)


def _in_stages(phase: Phase, scenario: Scenario, inventory: Inventory) -> tuple[list[Phase], list[str]]:
    """Return the stages of a phase as phases, and lines on what they cover."""
    others = tuple(spec for spec in phase.probes if not isinstance(spec, LinkBurnSpec))
    stages: list[LinkBurnSpec] = []
    lines: list[str] = []
    for spec in phase.probes:
        if not isinstance(spec, LinkBurnSpec):
            continue
        try:
            routing = _routing(spec.routing, phase, inventory)
            flows, coverage = burn(inventory.topology, scenario.hosts, routing=routing)
        except ValueError as exc:
            raise ConfigError.at(scenario.source, f"{phase.name}: {spec.name}: {exc}") from exc
        stages += spec.changed(stages=flows, routing=routing).one_by_one()
        lines += coverage
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
    Return the routes to plan for; ValueError if none are given, or scenario and inventory disagree.

    A phase that alters the routing knows it better than the inventory. ``ecmp`` plans for an unknown hash, and so suits
    any routing.
    """
    known = inventory.topology.routing if inventory.topology.uplinks else asked or "ftree"  # else nothing is routed
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
    Plan the stages that burn in the links between these hosts; return them, and lines on their number and coverage.

    *routing*: ftree, updn or minhop (OpenSM's tables), ar (adaptive), ecmp (an unknown hash). Raises ValueError where
    the network is not a regular fat tree.
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
    yield f"{counted(len(plan.stages), 'stage')} ({plan.bound} at least, whatever the plan); {routes}"
    for tier in plan.tiers:
        text = f"{tier.name}: {tier.covered:,} of {tier.links:,} links at half their rate or more"
        yield text + (f"; no traffic can load {tier.never:,}" if tier.never else "")
    names = named.trunk_names if routing == "ar" else named.link_names
    for what, ids in (("no traffic can load", plan.never), ("left out", plan.missed)):
        if ids:
            yield f"{what}: {some([names[link] for link in ids], _NAMED)}"


def _likely_lines(plan: LikelyPlan) -> Iterator[str]:
    yield f"{counted(len(plan.stages), 'stage')} at random: which links ECMP takes cannot be known before"
    yield f"probability that every link reaches half its rate: {plan.likely:.2f} or more"
    for name, part in plan.each:
        yield f"{name}: one stage covers {part:.0%} of the links on average"


OVER = 1.05
"""A plan counts as longer than asked from this factor on (a choice: durations are no better known)."""


def without_drills(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """
    Return the scenario with its drills if it allows them, else without them and without what it expects of them.

    Also return a line that says which drills are on or off; none if the scenario has no drills.
    """
    names = list(dict.fromkeys(phase.written for phase in scenario.phases if phase.drill))
    if not names:
        return scenario, ()
    listed = ", ".join(names)
    if DRILLS in scenario.allow:
        return scenario, (f"drills are on: {listed} alter the fabric, because 'allow' has {DRILLS}",)
    kept = tuple(phase for phase in scenario.phases if not phase.drill)
    expect = tuple(one for one in scenario.expect if not any(ref.label in names for ref in one.refs))
    line = f"drills are off: {listed} are left out, nothing is altered for them; 'allow: [{DRILLS}]' runs them"
    return replace(scenario, phases=kept, expect=expect), (line,)


def timed(
    scenario: Scenario,
    inventory: Inventory,
    *,
    lasts_s: float | None = None,
    known: dict[str, PhasePlan] | None = None,
) -> tuple[Scenario, tuple[str, ...]]:
    """
    Return the scenario with its rounds, and a line for each repeated phase; *lasts_s* replaces the file's own ``for``.

    Consecutive phases with one written name (the stages of a link burn) are repeated together. At least one round is
    run. The first rounds are planned here to count the rounds, and put into *known*, by name. Raises ConfigError where
    a share has no whole, shares exceed the whole, or rounds are too many, and where *lasts_s* is given and no phase has
    a share of it.
    """
    if lasts_s is not None:
        _require_share(scenario)
    if not any(_repeats(phase) for phase in scenario.phases):
        return scenario, ()
    whole_s = scenario.lasts_s if lasts_s is None else lasts_s
    _check(scenario, whole_s)
    phases: list[Phase] = []
    lines: list[str] = []
    first: dict[str, str] = {}
    for _, group in groupby(scenario.phases, key=lambda phase: (phase.written, phase.where, phase.for_s, phase.share)):
        block = tuple(group)
        made = list(block)
        if _repeats(block[0]):
            wanted_s = block[0].for_s or (block[0].share or 0.0) * (whole_s or 0.0)
            fills = FilledTime(block[0].name, wanted_s)
            once = plan_scenario(replace(scenario, phases=tuple(_round(block, 0, fills))), inventory)
            if known is not None:
                known.update((one.phase.name, one) for one in once.phases)
            once_s = once.duration_s
            count = max(1, int(wanted_s / once_s)) if once_s > 0.0 else 1
            made = [phase for number in range(count) for phase in _round(block, number, fills)]
            _bounded(block[0], len(phases) + len(made), scenario.source)
            lasts = f"{duration_text(once_s)}, {duration_text(count * once_s)} in all"
            lines.append(f"{block[0].written}: {counted(count, 'round')} of {lasts}")
        first |= {phase.name: made[place].name for place, phase in enumerate(block)}
        phases += made
    # Phases that need a repeated phase need its first round: later rounds do not stop the run.
    phases = [replace(phase, needs=tuple(first.get(need, need) for need in phase.needs)) for phase in phases]
    return replace(scenario, phases=tuple(phases)), tuple(lines)


def rounds_alike(hosts: Sequence[str], topology: Topology) -> Callable[[Phase], object]:
    """
    Return a function from phases to keys, equal for phases whose plans have the same numbers, whoever the partners are.

    Rounds of pairs are alike where each is a perfect matching of every plane: the pairs change, but not how much each
    host, RNIC and leaf has to do. Only the very first round, which stays under the leaves, differs. Drawn phases,
    phases that alter the fabric, and pairs that leave somebody out are like no other phase.
    """
    perfect = all(matches_all(plane.leaves) for plane in planes_of(hosts, topology))

    def of_any_round(spec: ProbeSpec) -> ProbeSpec:
        pairs = isinstance(spec, PairSpec) and perfect and not spec.only
        return spec.changed(first=min(spec.first, 1)) if pairs and isinstance(spec, PairSpec) else spec

    return lambda phase: (phase.name if phase.changes else "", phase.env, tuple(map(of_any_round, phase.probes)))


def longer_than_asked(plan: Plan, lasts_s: float | None) -> str | None:
    """Return a line if a plan takes longer than the whole run should (seconds; None: not stated); else None."""
    if lasts_s is None or plan.duration_s <= OVER * lasts_s:
        return None
    return (
        f"this takes {duration_text(plan.duration_s)} on hardware, not {duration_text(lasts_s)}: every phase is run, "
        "and at least one round of each that is repeated"
    )


def _repeats(phase: Phase) -> bool:
    return phase.for_s is not None or phase.share is not None


def _require_share(scenario: Scenario) -> None:
    """Raise ConfigError if no phase has a share: a duration for the whole run would then silently change nothing."""
    if any(phase.share is not None for phase in scenario.phases):
        return
    text = (
        f"no phase of {scenario.name} has a share of the whole run, so it would change nothing: leave it out, "
        "or give a phase a 'share' (scenarios/burn-in.yaml has one)"
    )
    raise ConfigError.at("--for", text)


def _check(scenario: Scenario, whole_s: float | None) -> None:
    """Raise ConfigError if shares have no whole, or exceed it."""
    by_name = {(phase.written, phase.where): phase.share for phase in scenario.phases if phase.share is not None}
    if by_name and whole_s is None:
        names = ", ".join(sorted({name for name, _ in by_name}))
        text = f"share of {names}: of what? say how long the whole run lasts: `for: 48h`, or --for 48h"
        raise ConfigError.at(scenario.source, text)
    if sum(by_name.values()) > 1.0 + 1e-9:
        text = f"the shares of the phases add up to {sum(by_name.values()):g}: expected at most 1"
        raise ConfigError.at(scenario.source, text)


def _bounded(phase: Phase, count: int, source: str) -> None:
    if count > PHASES_MOST:
        text = f"{phase.written}: {count:,} phases in all, expected at most {PHASES_MOST:,}: let one round last longer"
        raise ConfigError.at(source, text)


def _round(block: Sequence[Phase], number: int, fills: FilledTime) -> Iterator[Phase]:
    for phase in block:
        yield replace(
            phase,
            name=f"{phase.name}-r{number + 1}",
            label=phase.written,
            round=phase.round + number,
            probes=tuple(_drawn_anew(spec, number) for spec in phase.probes),
            for_s=None,
            share=None,
            fills=fills,
        )


def _drawn_anew(spec: ProbeSpec, number: int) -> ProbeSpec:
    if isinstance(spec, PairSpec):
        return spec.changed(first=spec.first + number * spec.rounds)
    if isinstance(spec, ConcurrentRingsSpec | GroupAllReduceSpec):
        return spec.changed(seed=spec.seed + number)
    return spec
