"""Where in a host its bandwidth is lost: among its GPUs, between GPUs and RNICs, or beyond; by which probes are low."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fabric.analysis.over_time.gather import Finding
from fabric.analysis.over_time.shapes import LEAST_POINTS, is_low
from fabric.analysis.over_time.tracks import Point, Track, Tracks
from fabric.model.topology import Topology

AS_OFTEN = 0.5
"""What stays inside a host must be low at least half as often as what leaves it, to be the cause (a choice)."""

_SLOWER = ("drift", "step", "low", "dips")  # heat has its own advice, and who came back was not slow
_INSIDE = "all_to_all"


def placed(findings: Sequence[Finding], found: Tracks, topology: Topology) -> list[Finding]:
    """
    The findings, with those of hosts that say where in the host it is.

    An all-to-all never leaves the host: where it is low, NVLink or a GPU is (``gpu001/nvlink``), and no cable; unless
    most of its RNICs are as low by themselves: then it is the whole host. Where it is well, and each RNIC of the host
    was measured by itself and is well, what is left is the way from the GPUs to the RNICs.
    """
    return [
        _placed(one, found, topology) if one.component in found.hosts and one.kind in _SLOWER else one
        for one in findings
    ]


def _placed(finding: Finding, found: Tracks, topology: Topology) -> Finding:
    track = found.hosts[finding.component]
    inside = _low_share(track, (point for point in track.points if point.kind == _INSIDE))
    beyond = _low_share(track, (point for point in track.points if point.kind != _INSIDE))
    devices = topology.hosts[finding.component].platform.rnic_by_device
    rnics = [found.rnics.get(f"{finding.component}/{device}") for device in devices]
    if inside and inside >= AS_OFTEN * (beyond or 0.0):
        slow = sum(one is not None and (_low_share(one, one.points) or 0.0) >= AS_OFTEN * inside for one in rnics)
        if 2 * slow > len(rnics):
            return finding
        return replace(finding, component=f"{finding.component}/nvlink", place="nvlink")
    well = all(one is not None and _is_well(one, beyond or 0.0) for one in rnics)
    return replace(finding, place="gpus") if well else finding


def _is_well(rnic: Track, rate: float) -> bool:
    """Whether it was measured often enough, and is not low as often as what would show it."""
    share = _low_share(rnic, rnic.points)
    return share is not None and len(rnic.points) >= LEAST_POINTS and share < AS_OFTEN * rate


def _low_share(track: Track, points: Iterable[Point]) -> float | None:
    """The share of these that are low; None where there are none."""
    low = [is_low(point.share, floor=track.floor, sigma=track.sigma) for point in points]
    return sum(low) / len(low) if low else None
