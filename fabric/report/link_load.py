"""
What rings put on the cables between switches, of a simulated run: the simulated network asked once more.

The network is made from what the run was asked with (switches, faults, routing), the rings that ran at the same time
are laid over it, each wants the bus bandwidth that it reached, and shares as the simulation shares. So it is known only
where nothing else moved paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from fabric.model.scenario import Where
from fabric.report.shown_run import Row, ShownRun
from fabric.sim.faults import KINDS
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.hosts.site import Flow, Ring
from fabric.sim.subnet.managers import Forwarding, Routing, forwarding_at_start
from fabric.sim.subnet.network import Network, network_of
from fabric.sim.tools.nccl_tests.model import Ranks, rail_weight

MOST_CABLES = 1024
"""Of more pairs of switches no picture is made (a choice)."""

FULL = 0.9
"""Static routes leave a link this full no room: what hashes there goes slower (a choice)."""

_MOST_CONFIGURATIONS = 4
_ON_TOP = 1.05
"""More than this of the line rate is impossible: the rings ran otherwise than is thought here, and nothing is shown."""

_ALIKE = 0.02
"""Configurations of which no cable differs by more than this share of its line rate have one picture (a choice)."""

_RINGS = ("group_all_reduce", "concurrent_rings")
_ADAPTIVE = "adaptive_routing"


@dataclass(frozen=True, slots=True)
class LinkLoads:
    """
    Of one configuration, or of several that were alike: load over line rate of the busier direction, by pair of
    switches, the lower first.
    """

    name: str
    rings: int
    shares: Mapping[tuple[str, str], float]

    @property
    def caption(self) -> str:
        """How full they are in words, and the fullest."""
        listed = sorted(self.shares.values())
        (low, high), most = max(self.shares.items(), key=lambda pair: pair[1])
        full = sum(share >= FULL for share in listed)
        return (
            f"{'one ring' if self.rings == 1 else f'{self.rings} rings at the same time'}, share of line rate in the "
            f"busier direction, by the simulation: median {median(listed):.0%}, most {most:.0%} ({low}--{high}); "
            f"{full} of {len(listed)} cables at {FULL:.0%} or more"
        )


def link_loads(run: ShownRun) -> list[LinkLoads]:
    """
    One for each configuration without a fault made on purpose, those that were alike as one; none where the simulation
    does not know.
    """
    topology, mock = run.inventory.topology, run.inventory.mock
    lively = mock.timed_faults or any(KINDS[one.kind].comes for one in mock.faults)
    pairs = sum(len(uplinks.lower) * len(uplinks.upper) for uplinks in topology.uplinks)
    if not run.simulated or lively or not 0 < pairs <= MOST_CABLES:
        return []
    found = [_loads(run, where, rows) for where, rows in _together(run)]
    return folded([one for one in found if one is not None and max(one.shares.values(), default=0.0) <= _ON_TOP])


def folded(found: Sequence[LinkLoads]) -> list[LinkLoads]:
    """Configurations with like cables as one, under all names: a sweep has the same healthy phase often."""
    kept: list[LinkLoads] = []
    for one in found:
        place = next((number for number, other in enumerate(kept) if _alike(one, other)), None)
        if place is None:
            kept.append(one)
        else:
            kept[place] = replace(kept[place], name="; ".join(dict.fromkeys((kept[place].name, one.name))))
    return kept


def _alike(one: LinkLoads, other: LinkLoads) -> bool:
    return one.rings == other.rings and all(
        abs(share - other.shares.get(pair, 2.0)) <= _ALIKE for pair, share in one.shares.items()
    )


def _together(run: ShownRun) -> Iterator[tuple[Where, list[Row]]]:
    """By configuration the first rings, and the others that ran while the first one did, each once."""
    moved = {one.change.phase for one in run.judged.verdict.changes if one.change.kind != _ADAPTIVE}
    wheres = {phase.name: phase.where for phase in run.judged.scenario.phases if phase.name not in moved}
    first: dict[Where, list[Row]] = {}
    for row in run.rows:
        where = wheres.get(row.probe.phase)
        if where is None or row.probe.kind not in _RINGS or row.result is None or not row.result.measurements:
            continue
        rows = first.setdefault(where, [])
        beside = not rows or (rows[0].result is not None and row.result.started_s < rows[0].result.ended_s)
        if beside and all(row.probe.hosts != other.probe.hosts for other in rows):
            rows.append(row)
    yield from list(first.items())[:_MOST_CONFIGURATIONS]


def _loads(run: ShownRun, where: Where, rows: Sequence[Row]) -> LinkLoads | None:
    network = _network(run, where)
    if network is None or not all(_is_ring(row, run) for row in rows):
        return None
    flows = [_begun(network, row, run) for row in rows]
    limits = dict(network.limits_gbps())
    for flow in flows:  # one second of each: then what a link carried is what it carries a second
        network.end(flow, min(limits[flow], flow.ceiling_gbps))
    shares = {}
    for uplinks in run.inventory.topology.uplinks:
        for low in uplinks.lower:
            for high in uplinks.upper:
                load = [network.carried_gb(link, 0.0) for cable in network.net.cables(low, high) for link in cable]
                shares[low, high] = max(load, default=0.0) / uplinks.line_rate_gbps
    name = ", ".join(f"{key}={value}" for key, value in where)
    return LinkLoads(name, len(rows), shares)


def _network(run: ShownRun, where: Where) -> Network | None:
    mock = run.inventory.mock
    routing = Routing(mock.routing, mock.qps, mock.salt)
    forwarding: Forwarding = forwarding_at_start(routing)
    asked = dict(where).get(_ADAPTIVE)
    if asked is not None:
        forwarding = replace(forwarding, adaptive=asked == "on")
    return network_of(run.inventory.topology, mock.faults, routing, forwarding)


def _is_ring(row: Row, run: ShownRun) -> bool:
    """An all-reduce by rings over every GPU of hosts that have an RNIC for each."""
    makes = {run.inventory.topology.hosts[host].platform.name for host in row.probe.hosts}
    platform = run.inventory.topology.hosts[row.probe.hosts[0]].platform
    ranks = row.probe.params.get("ranks")
    return (
        len(makes) == 1
        and len(platform.rnics) == len(platform.gpus)
        and ranks == len(platform.gpus) * len(row.probe.hosts)
        and row.probe.params.get("algorithm") == "RING"
    )


def _begun(network: Network, row: Row, run: ShownRun) -> Flow:
    """A ring that wants what it reached; a ring whose neighbours ended first reached more than it had beside them."""
    hosts = row.probe.hosts
    platform = run.inventory.topology.hosts[hosts[0]].platform
    ranks = Ranks(len(platform.gpus) * len(hosts), len(hosts))
    rails = tuple(sorted(rnic.rail for rnic in platform.rnics))
    ratio = rail_weight("all_reduce", ranks, rails=len(rails), tree=False) * RNIC_EFFICIENCY
    measured = row.result.measurements if row.result is not None else ()
    largest = max(m.size_bytes or 0 for m in measured)
    bus_gbps = min(m.value for m in measured if (m.size_bytes or 0) == largest)
    flow = Flow((), bus_gbps)
    network.begin(flow, Ring(hosts, rails, ratio))
    return flow
