"""
Planes in which nobody stands out and (nearly) every pair is below its limit: one suspect, not every host.

It is the group of all hosts; but where they share one leaf switch on that rail, and are not slow as a whole on another
rail, it is that leaf, for nothing else is theirs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high

import numpy as np

from fabric.judge.locate.pairs.fitted import Fitted
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

_NEARLY_ALL = 0.9
"""Share of the pairs that no bad part explains; fewer, and somebody does stand out (a choice)."""

_PROBES_MOST, _PLANES_MOST = 20, 8


@dataclass(frozen=True, slots=True)
class SlowRail:
    """
    A plane that is below its limit as a whole: its name in brackets, hosts, and the verdicts of its slow pairs.

    *leaf* is the switch that all of them share, None where they have several or it is not known.
    """

    where: str
    hosts: tuple[str, ...]
    slow: tuple[ProbeVerdict, ...]
    leaf: str | None = None


def only_leaf(hosts: Sequence[str], rail: int, topology: Topology) -> str | None:
    """The leaf switch that all *hosts* share on a rail; None where there is more than one, or it is not known."""
    found = {next(iter(topology.hosts[host].leaves[rail : rail + 1]), None) for host in hosts}
    return found.pop() if len(found) == 1 else None


def below_as_a_whole(
    fitted: Fitted,
    where: str,
    probe_ids: Sequence[str],
    verdicts: Mapping[str, ProbeVerdict],
    leaf: str | None = None,
) -> SlowRail | None:
    """The plane, when (nearly) all pairs that no bad part explains missed their limit; None else."""
    open_ = np.flatnonzero(fitted.decoded.explained == 0).tolist()
    judged = [verdicts[probe_ids[i]] for i in open_]
    slow = [one for one in judged if one.outcome is Outcome.FAIL and one.limit_gbps is not None and not one.against]
    if not slow or len(slow) < _NEARLY_ALL * len(judged) or _with_one_host(fitted, open_):
        return None
    return SlowRail(where, fitted.samples.hosts, tuple(slow), leaf)


def _with_one_host(fitted: Fitted, places: Sequence[int]) -> bool:
    """All these pairs have just one host in common: then it stands out, though no other pair was measured beside it."""
    ends = zip(fitted.samples.a[places].tolist(), fitted.samples.b[places].tolist(), strict=True)
    return len(frozenset.intersection(*(frozenset(pair) for pair in ends))) == 1


def whole_suspects(found: Sequence[SlowRail], others: Sequence[Sequence[str]] = ()) -> list[Suspect]:
    """
    One suspect for the same hosts on all their planes, or one for each leaf.

    *others* are the hosts of each plane that is not slow as a whole.
    """
    by_hosts: dict[tuple[str, ...], list[SlowRail]] = {}
    by_leaf: dict[str, list[SlowRail]] = {}
    for one in found:
        if one.leaf is not None and any(_nearly_all_in(one.hosts, hosts) for hosts in others):
            by_leaf.setdefault(one.leaf, []).append(one)
        else:
            by_hosts.setdefault(one.hosts, []).append(one)
    suspects = [_leaf_suspect(leaf, planes) for leaf, planes in by_leaf.items()]
    return suspects + [_suspect(hosts, planes) for hosts, planes in by_hosts.items()]


def _nearly_all_in(hosts: Sequence[str], others: Sequence[str]) -> bool:
    return len(set(hosts) & set(others)) >= _NEARLY_ALL * len(hosts)


def _leaf_suspect(leaf: str, planes: Sequence[SlowRail]) -> Suspect:
    worst = _worst_first(planes)
    return Suspect(
        component=leaf,
        kind="leaf",
        outcome=Outcome.FAIL,
        # Laplace: k of k pairs slow; never more than the rest of the model allows.
        confidence=min(0.99, round((len(worst) + 1) / (len(worst) + 2), 2)),
        evidence=(
            "the leaf switch: every pair under it is below the limit, and on another rail the same hosts are not",
            *(_said(plane) for plane in planes[:_PLANES_MOST]),
        ),
        next_step="look at the leaf switch first: its ports, configuration and firmware; then at what all RNICs of "
        "this rail share",
        probes=tuple(one.probe_id for one in worst[:_PROBES_MOST]),
    )


def _worst_first(planes: Sequence[SlowRail]) -> list[ProbeVerdict]:
    slow = [verdict for plane in planes for verdict in plane.slow]
    return sorted(slow, key=lambda one: (one.value_gbps or 0.0, one.probe_id))


def _suspect(hosts: tuple[str, ...], planes: Sequence[SlowRail]) -> Suspect:
    worst = _worst_first(planes)
    more = [f"and {len(planes) - _PLANES_MOST} more"] if len(planes) > _PLANES_MOST else []
    return Suspect(
        component=fold(hosts),
        kind="group",
        outcome=Outcome.FAIL,
        # That all of it is slow is certain; as elsewhere it is never said to be more.
        confidence=0.99,
        evidence=(
            "nobody stands out: the pairs of these hosts are below the limit as a whole",
            *(_said(plane) for plane in planes[:_PLANES_MOST]),
            *more,
        ),
        next_step="what they share first: switch configuration, MTU, firmware, PCIe settings, a power cap, or a limit "
        "that is meant for other hardware",
        hosts=hosts,
        probes=tuple(one.probe_id for one in worst[:_PROBES_MOST]),
    )


def _said(plane: SlowRail) -> str:
    level = median(one.value_gbps or 0.0 for one in plane.slow)
    limits = sorted({one.limit_gbps or 0.0 for one in plane.slow})
    required = " or ".join(f"{limit:g}" for limit in limits)
    return f"{len(plane.slow)} pairs{plane.where}: median {level:.1f} Gb/s, at least {required} required"


LEAST_LOSS = 0.05
"""The smallest loss of a whole rail that is said (a choice: wider than what rails of one make differ)."""

_Plane = tuple[str, Fitted]


def slow_rails(planes: Sequence[_Plane], topology: Topology | None) -> list[tuple[Outcome, str]]:
    """
    One INCONCLUSIVE line for each rail behind the others of its kind, line rate and link class.

    It is no FAIL: without a limit nobody knows whether such a rail is bad, or of other hardware by design.
    """
    alike: dict[tuple[str, str, float | None], list[tuple[str, float]]] = {}
    for kind, fitted in planes:
        rail = fitted.samples.rail
        if rail is None:
            continue
        for grouping, found in zip(fitted.classes, fitted.references, strict=True):
            key = (kind, grouping.name, _line_rate_gbps(fitted, rail, topology))
            alike.setdefault(key, []).append((rail, found.gbps))
    judged = []
    for (kind, name, _), rails in alike.items():
        usual = median_high(gbps for _, gbps in rails)
        where = f"{kind}, {name}" if kind else name
        judged += [
            (Outcome.INCONCLUSIVE, _slower_rail(rail, gbps, where, usual, len(rails)))
            for rail, gbps in rails
            if gbps < (1 - LEAST_LOSS) * usual
        ]
    return judged


def _slower_rail(rail: str, gbps: float, where: str, usual_gbps: float, rails: int) -> str:
    return (
        f"{rail} as a whole ({where}) reaches {gbps:,.1f} Gb/s, {gbps / usual_gbps:.0%} of the usual "
        f"{usual_gbps:,.1f} Gb/s of {rails} rails: its leaf switches and their settings first; is it slower by design, "
        "give a limit"
    )


def _line_rate_gbps(fitted: Fitted, rail: str, topology: Topology | None) -> float | None:
    """The line rate of a rail's RNICs where the inventory knows it, of the first host that has one."""
    if topology is None:
        return None
    hosts = (topology.hosts[name] for name in fitted.samples.hosts if name in topology.hosts)
    known = (host.platform.rnic_by_device.get(rail) for host in hosts)
    return next((rnic.line_rate_gbps for rnic in known if rnic is not None), None)
