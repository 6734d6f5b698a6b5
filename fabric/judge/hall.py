"""
How a hall scales: collectives over 2, 4, 8 ... hosts beside what its lines and cables could carry at most.

The bound is of the inventory alone, whatever the routing: the least over RNICs' lines and the cables between switches
taken together, of line rate over load (headers and NCCL's own share are not taken off). A ring's bus bandwidth is that
of all rails; of an all-to-all bytes for GPUs of the same host stay on NVLink. The bisection is what rings of two hosts
carry that all run at once, one of each half: their bus bandwidths together cross the middle, each way. Nobody publishes
a limit for such numbers, so they are told; where the baseline has one, it judges (``verdict/probes.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from fabric.model.outcome import Outcome
from fabric.model.probe import CURVE, Probe
from fabric.model.topology import Topology
from fabric.model.verdict import Hall, HallPairs, HallPoint, ProbeVerdict
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.shapes import int_param

if TYPE_CHECKING:
    from fabric.judge.hall_bounds import HallBounds

BISECTION = "bisection, one way"
_BESIDE = ("rnic_to_rnic", "pairwise")  # kinds whose numbers belong beside the curve


def is_told(probe: Probe, verdict: ProbeVerdict) -> bool:
    """Whether its number stands in the curve and judges nothing, because there is no limit for it."""
    judged = verdict.limit_gbps is not None or verdict.outcome is not Outcome.INCONCLUSIVE
    return CURVE in probe.params and verdict.value_gbps is not None and not judged


def hall_of(probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], topology: Topology) -> Hall | None:
    """The curve of a run; None where it has none."""
    asked = [probe for probe in probes if CURVE in probe.params]
    if not asked:
        return None
    from fabric.judge.hall_bounds import HallBounds  # numpy: only where there is a curve

    bounds = HallBounds(topology)
    halves = [probe for probe in asked if probe.kind == ConcurrentRingsSpec.kind]
    points = [_point(probe, verdicts[probe.probe_id], bounds) for probe in asked if probe not in halves]
    if pairs := [probe for probe in halves if len(probe.hosts) == 2]:
        points.append(_bisection(pairs, verdicts, bounds))
    return Hall(tuple(points), tuple(_beside(probes, verdicts)))


def _point(probe: Probe, verdict: ProbeVerdict, bounds: HallBounds) -> HallPoint:
    return HallPoint(
        kind=probe.kind,
        hosts=len(probe.hosts),
        gpus=int_param(probe, "ranks"),
        gbps=verdict.value_gbps,
        bound_gbps=bounds.bus_gbps(probe),
        limit_gbps=verdict.limit_gbps,
        outcome=verdict.outcome,
        reason="" if is_told(probe, verdict) else verdict.reason,
    )


def _bisection(pairs: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], bounds: HallBounds) -> HallPoint:
    """What all pairs carry at once; nothing where one of them was not measured."""
    values = [verdicts[probe.probe_id].value_gbps for probe in pairs]
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return HallPoint(
        kind=BISECTION,
        hosts=2 * len(pairs),
        gpus=sum(int_param(probe, "ranks") for probe in pairs),
        gbps=sum(known) if whole else None,
        bound_gbps=bounds.halves_gbps(pairs),
        limit_gbps=None,
        outcome=Outcome.worst(verdicts[probe.probe_id].outcome for probe in pairs),
        reason="" if whole else f"{len(values) - len(known)} of {len(values)} pairs were not measured",
    )


def _beside(probes: Iterable[Probe], verdicts: Mapping[str, ProbeVerdict]) -> Iterable[HallPairs]:
    for kind in _BESIDE:
        judged = [verdicts[probe.probe_id] for probe in probes if probe.kind == kind]
        values = [one.value_gbps for one in judged if one.value_gbps is not None]
        if values:
            limits = [one.limit_gbps for one in judged if one.limit_gbps is not None]
            yield HallPairs(kind, len(values), min(values), median(values), max(limits, default=None))
