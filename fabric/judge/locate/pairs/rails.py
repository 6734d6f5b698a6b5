"""Rails that are behind the others as a whole, where no limit judges them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from fabric.judge.locate.pairs.fitted import Fitted
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology

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
