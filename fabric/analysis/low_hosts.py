"""
Hosts that are a little low as a whole and have a part that is much worse: two troubles, and each its own probes.

A host that lacks two percent misses some of its limits by a hair. Alone it is found by what its probes share; beside a
part that lost a third, the good probes of the host look well, and each path that missed its limit would be named by
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import median_high

from fabric.analysis.evidence import evidence_lines
from fabric.analysis.host_level import LEAST_NUMBERS
from fabric.analysis.peer_share import Classes
from fabric.analysis.peers import peers_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import ProbeVerdict, Suspect

LEAST_LACK = 0.01
"""Share that a host must lack as a whole (a choice: healthy hosts differ by half a percent)."""

NEAR = 0.02
"""Share by which a number may lie below its host's level and still be as low as the host (two thirds of the floor)."""

_MOST_PROBES = 20

_Judged = tuple[Probe, ProbeVerdict]
_Share = tuple[Probe, ProbeVerdict, float]


def low_hosts(classes: Classes, bad: AbstractSet[str]) -> list[tuple[Suspect, frozenset[str]]]:
    """Each such host as a suspect, with the ids of the *bad* probes that it explains; *classes* are its peers."""
    found = []
    for host, numbers in _shares(classes, bad).items():
        level = median_high(share for _, _, share in numbers) if len(numbers) >= LEAST_NUMBERS else 1.0
        if level > 1 - LEAST_LACK:
            continue
        near = [one for one in numbers if one[2] >= level * (1 - NEAR)]
        missed = [(probe, verdict) for probe, verdict, _ in near if probe.probe_id in bad]
        worse = [one for one in numbers if one[2] < level * (1 - NEAR) and one[0].probe_id in bad]
        if missed and worse:
            explains = frozenset(probe.probe_id for probe, _ in missed)
            found.append((_suspect(host, level, near, missed), explains))
    return found


def _shares(classes: Classes, bad: AbstractSet[str]) -> dict[str, list[_Share]]:
    """The numbers of every host that has two bad ones or more, each with its share of what is normal for its class."""
    count: dict[str, int] = {}
    for members in classes.values():
        for probe, _ in members:
            if probe.probe_id in bad:
                count[probe.hosts[0]] = count.get(probe.hosts[0], 0) + 1
    hosts = {host for host, number in count.items() if number > 1}
    found: dict[str, list[_Share]] = {}
    for members in classes.values() if hosts else ():
        normal = peers_of([verdict.value_gbps or 0.0 for _, verdict in members])
        for probe, verdict in members if normal is not None else ():
            if probe.hosts[0] in hosts and normal is not None:
                share = (verdict.value_gbps or 0.0) / normal.median_gbps
                found.setdefault(probe.hosts[0], []).append((probe, verdict, share))
    return found


def _suspect(host: str, level: float, near: Sequence[_Share], missed: Sequence[_Judged]) -> Suspect:
    low = sum(share < (1 + level) / 2 for _, _, share in near)
    worst = sorted(missed, key=lambda pair: (pair[1].value_gbps or 0.0) / (pair[1].required_gbps or 1.0))
    return Suspect(
        component=host,
        kind="host",
        outcome=Outcome.FAIL,
        # Laplace; what is held down by the worse part tells nothing of the host.
        confidence=min(0.99, round((low + 1) / (len(near) + 2), 2)),
        evidence=(
            f"the host as a whole reaches {level:.1%} of what its peers do, beside a part of it that is worse",
            f"{low} of {len(near)} other numbers of it are low alike",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in missed]),
        ),
        next_step="what all its parts share: power cap, clocks, BIOS and PCIe settings, firmware; mend the worse part "
        "first, then run it again",
        hosts=(host,),
        probes=tuple(probe.probe_id for probe, _ in worst[:_MOST_PROBES]),
    )
