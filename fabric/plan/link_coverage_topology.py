"""Link coverage of an inventory's fabric: stages as names of hosts and devices, and what they cover in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fabric.model.topology import Topology
from fabric.plan.link_coverage import CoveragePlan, Stage, plan_coverage
from fabric.plan.link_coverage_chance import LikelyPlan, plan_by_chance
from fabric.plan.link_coverage_network import routed_fabric
from fabric.probes.link_burn import BurnFlow
from fabric.sim.named_clos import NamedClos
from fabric.sim.net_from_topology import net_from_topology

_NAMED = 4  # links named in a line; the rest are counted


@dataclass(frozen=True, slots=True)
class Burn:
    """Stages of flows, and lines of text: how many, how few are possible, what is covered and what is not."""

    stages: tuple[tuple[BurnFlow, ...], ...]
    lines: tuple[str, ...]


def burn(topology: Topology, hosts: Iterable[str], *, routing: str) -> Burn:
    """
    The stages that burn in the links between these hosts; ValueError where the network is not a regular fat tree.

    *routing*: ftree, updn or minhop (OpenSM's tables), ar (adaptive), ecmp (a hash that nobody knows).
    """
    named = net_from_topology(topology)
    taking_part = frozenset(hosts)
    usable = np.repeat([name in taking_part for name in named.hosts], named.clos.spec.rails)
    make = partial(routed_fabric, named.clos, usable=usable, part=np.array(named.block) if not named.cores else None)
    if routing == "ecmp":
        likely = plan_by_chance(lambda salt: make(routing=routing, salt=salt))
        return Burn(_named(named, likely.stages), tuple(_likely_lines(likely)))
    plan = plan_coverage(make(routing=routing))
    return Burn(_named(named, plan.stages), tuple(_lines(plan, named, routing)))


def _named(named: NamedClos, stages: Sequence[Stage]) -> tuple[tuple[BurnFlow, ...], ...]:
    ends = [_end(named, nic) for nic in range(named.clos.nics)]
    return tuple(
        tuple(BurnFlow(*ends[src], *ends[dst]) for src, dst in zip(s.src.tolist(), s.dst.tolist(), strict=True))
        for s in stages
    )


def _end(named: NamedClos, nic: int) -> tuple[str, str]:
    host, rail = divmod(nic, named.clos.spec.rails)
    name = named.hosts[host]
    return ("", "") if name is None else (name, named.devices[name][rail])


def _lines(plan: CoveragePlan, named: NamedClos, routing: str) -> Iterable[str]:
    yield f"{_stages(len(plan.stages))} ({plan.bound} at least, whatever the plan); routes: {routing}"
    for tier in plan.tiers:
        text = f"{tier.name}: {tier.covered:,} of {tier.links:,} links at half their rate or more"
        yield text + (f"; no traffic can load {tier.never:,}" if tier.never else "")
    name = named.trunk_name if routing == "ar" else named.link_name
    for what, ids in (("no traffic can load", plan.never), ("left out", plan.missed)):
        if ids:
            shown = ", ".join(name(link) for link in ids[:_NAMED])
            yield f"{what}: {shown}{f' and {len(ids) - _NAMED:,} more' if len(ids) > _NAMED else ''}"


def _likely_lines(plan: LikelyPlan) -> Iterable[str]:
    yield f"{_stages(len(plan.stages))} at random: which links ECMP takes cannot be known before"
    yield f"probability that every link reaches half its rate: {plan.likely:.2f} or more"
    for name, part in plan.each:
        yield f"{name}: one stage covers {part:.0%} of the links on average"


def _stages(count: int) -> str:
    return f"{count} stage{'' if count == 1 else 's'}"
