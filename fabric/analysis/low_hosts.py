"""
Hosts that are a little low as a whole and have a part that is much worse: two troubles, and each its own probes.

A host that lacks two percent misses some of its limits by a hair. Alone it is found by what its probes share; beside a
part that lost a third, the good probes of the host look well, and each path that missed its limit would be named by
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import median, median_high

from fabric.analysis.evidence import evidence_lines
from fabric.analysis.host_level import LEAST_NUMBERS
from fabric.analysis.peer_share import Classes
from fabric.analysis.peers import LEAST_PEERS
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import ProbeVerdict, Suspect

LEAST_LACK = 0.015
"""Share that a host must lack as a whole (a choice: three times the half percent by which healthy hosts differ)."""

NEAR = 0.02
"""Share by which a number may lie below its host's level and still be as low as the host (two thirds of the floor)."""

WORSE = 0.06
"""Share by which the numbers of the part lie below it (a choice: six times the noise of one sample; else two numbers of
a healthy host that miss a near limit by chance would look like a host and its part)."""

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
        worse = [one for one in numbers if one[2] < level * (1 - WORSE) and one[0].probe_id in bad]
        if missed and worse:
            explains = frozenset(probe.probe_id for probe, _ in missed)
            found.append((_suspect(host, level, near, missed), explains))
    return found


def _shares(classes: Classes, bad: AbstractSet[str]) -> dict[str, list[_Share]]:
    """The numbers of every host that may be one, each with its share of what is normal for its class."""
    hosts = _candidates(classes, bad)
    found: dict[str, list[_Share]] = {}
    for members in classes.values() if hosts else ():
        _add(found, members, [pair for pair in members if pair[0].hosts[0] in hosts])
    return found


def _candidates(classes: Classes, bad: AbstractSet[str]) -> set[str]:
    """Hosts of which one bad number is so much worse than another as the two troubles are; seldom is there any."""
    found: dict[str, list[_Share]] = {}
    for members in classes.values():
        _add(found, members, [pair for pair in members if pair[0].probe_id in bad])
    apart = (1 - WORSE) / (1 - NEAR)
    worst_and_best = {host: (min(s for _, _, s in own), max(s for _, _, s in own)) for host, own in found.items()}
    return {host for host, (worst, best) in worst_and_best.items() if worst < apart * best}


def _add(found: dict[str, list[_Share]], members: Sequence[_Judged], some: Sequence[_Judged]) -> None:
    """By host *some* members of a class, where it has enough to say what is normal."""
    normal = (
        median(verdict.value_gbps or 0.0 for _, verdict in members) if some and len(members) >= LEAST_PEERS else 0.0
    )
    for probe, verdict in some if normal > 0.0 else ():
        found.setdefault(probe.hosts[0], []).append((probe, verdict, (verdict.value_gbps or 0.0) / normal))


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
