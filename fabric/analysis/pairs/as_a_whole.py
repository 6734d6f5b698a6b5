"""Planes in which nobody stands out and (nearly) every pair is below its limit: one suspect, not every leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from fabric.analysis.pairs.fitted import Fitted
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.verdict import ProbeVerdict, Suspect

_NEARLY_ALL = 0.9
"""Share of the pairs that no bad part explains; fewer, and somebody does stand out (a choice)."""

_PROBES_MOST, _PLANES_MOST = 20, 8


@dataclass(frozen=True, slots=True)
class Whole:
    """A plane that is below its limit as a whole: its name in brackets, hosts, and the verdicts of its slow pairs."""

    where: str
    hosts: tuple[str, ...]
    slow: tuple[ProbeVerdict, ...]


def below_as_a_whole(
    fitted: Fitted, where: str, probe_ids: Sequence[str], verdicts: Mapping[str, ProbeVerdict]
) -> Whole | None:
    """The plane, when (nearly) all pairs that no bad part explains missed their limit; None else."""
    open_ = np.flatnonzero(fitted.decoded.explained == 0).tolist()
    judged = [verdicts[probe_ids[i]] for i in open_]
    slow = [one for one in judged if one.outcome is Outcome.FAIL and one.limit_gbps is not None and not one.against]
    if not slow or len(slow) < _NEARLY_ALL * len(judged):
        return None
    return Whole(where, fitted.samples.hosts, tuple(slow))


def whole_suspects(found: Sequence[Whole]) -> list[Suspect]:
    """One suspect for the same hosts on all their planes."""
    by_hosts: dict[tuple[str, ...], list[Whole]] = {}
    for one in found:
        by_hosts.setdefault(one.hosts, []).append(one)
    return [_suspect(hosts, planes) for hosts, planes in by_hosts.items()]


def _suspect(hosts: tuple[str, ...], planes: Sequence[Whole]) -> Suspect:
    slow = [verdict for plane in planes for verdict in plane.slow]
    worst = sorted(slow, key=lambda one: (one.value_gbps or 0.0, one.probe_id))
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


def _said(plane: Whole) -> str:
    level = median(one.value_gbps or 0.0 for one in plane.slow)
    limits = sorted({one.limit_gbps or 0.0 for one in plane.slow})
    required = " or ".join(f"{limit:g}" for limit in limits)
    return f"{len(plane.slow)} pairs{plane.where}: median {level:.1f} Gb/s, at least {required} required"
