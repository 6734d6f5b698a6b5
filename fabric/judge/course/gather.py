"""The same course on most parts of a host, or on most hosts of a rack, is one finding of the larger thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabric.judge.course.shapes import LEAST_POINTS, is_low
from fabric.judge.course.tracks import Point, Track, Tracks
from fabric.model.part import Part
from fabric.model.text import fold
from fabric.model.topology import Topology

MOST_OF = 0.5
"""Of its parts that were measured more than this share must be bad (a choice)."""

LEAST_PARTS = 3
"""Two alike may be chance (a choice)."""


@dataclass(frozen=True, slots=True)
class CourseFinding:
    """
    A part and its course: ``drift``, ``step``, ``heat``, ``low``, ``dips`` or ``came_back``; ``uplinks`` of a leaf; or
    of what many RNICs share ``shared`` (its probes went bad) or ``went_down`` (their ports did). ``few_dips`` accuses
    nobody and is a note, as are those of ``again.py``.

    *text* says it in words. *chance*: of such a course without a fault. *weight*: how much was lost in all, and who
    lost most is named first. *rivals* were measured by the very same probes, or took part in all that failed. *hosts*:
    whose it is. *explains*: the hosts of every probe that it takes part in, by id. *failures*: how often what came back
    had failed. *place*: where in a host it is, as ``place.py`` says (``nvlink``, ``gpus``; empty: not known).
    *part*: of what is shared its kind, as in ``model.verdict.Suspect``. *ports*: whose counters it explains.
    """

    component: str
    kind: str
    text: str
    chance: float
    weight: float
    probes: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    explains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: int = 0
    place: str = ""
    part: str = ""
    ports: tuple[str, ...] = ()


def gathered(findings: Sequence[CourseFinding], found: Tracks, topology: Topology) -> list[CourseFinding]:
    """First RNICs to their host, then hosts to their rack, or to their first leaf where racks are unknown."""
    members: dict[str, list[str]] = {}
    for name in found.rnics:
        members.setdefault(Part.of(name).host, []).append(name)
    by_host = _larger(findings, members, "RNICs")
    racks: dict[str, list[str]] = {}
    for name in dict.fromkeys((*found.hosts, *members)):
        host = topology.hosts[name]
        if host.rack is not None or host.leaves:
            racks.setdefault(host.leaves[0] if host.rack is None else f"rack {host.rack}", []).append(name)
    alike = _larger(by_host, racks, "hosts")
    known = {one.component for one in alike}
    inside = {host for name, hosts in racks.items() if name in known for host in hosts}
    return [one for one in alike if Part.of(one.component).host not in inside]


def _larger(findings: Sequence[CourseFinding], members: dict[str, list[str]], what: str) -> list[CourseFinding]:
    whose = {part: name for name, parts in members.items() for part in parts}
    alike: dict[tuple[str, str], list[CourseFinding]] = {}
    for finding in findings:
        if finding.component in whose:
            alike.setdefault((whose[finding.component], finding.kind), []).append(finding)
    into: dict[int, CourseFinding] = {}
    for (name, _), group in alike.items():
        parts = members[name]
        if len(group) < LEAST_PARTS or len(group) <= MOST_OF * len(parts):
            continue
        names = fold(sorted(finding.component for finding in group))
        text = f"{len(group)} of its {len(parts)} {what} alike ({names}): the first {group[0].text}"
        made = replace(
            group[0],
            component=name,
            text=text,
            weight=sum(one.weight for one in group),
            rivals=(),
            hosts=tuple(dict.fromkeys(host for one in group for host in one.hosts)),
            explains={probe_id: hosts for one in group for probe_id, hosts in one.explains.items()},
            failures=sum(one.failures for one in group),
        )
        into.update({id(finding): made for finding in group})
    found: dict[tuple[str, str], CourseFinding] = {}
    for finding in findings:
        one = into.get(id(finding), finding)
        known = found.get((one.component, one.kind))
        found[one.component, one.kind] = one if known is None else _joined(known, one)
    return list(found.values())


def _joined(first: CourseFinding, second: CourseFinding) -> CourseFinding:
    """Two of one component and kind, from its parts and from itself: together they explain more."""
    if first is second:
        return first
    hosts = tuple(dict.fromkeys((*first.hosts, *second.hosts)))
    return replace(first, hosts=hosts, explains={**first.explains, **second.explains})


AS_OFTEN = 0.5
"""What stays inside a host must be low at least half as often as what leaves it, to be the cause (a choice)."""

_SLOWER = ("drift", "step", "low", "dips")  # heat has its own advice, and who came back was not slow
_INSIDE = "all_to_all"


def placed(findings: Sequence[CourseFinding], found: Tracks, topology: Topology) -> list[CourseFinding]:
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


def _placed(finding: CourseFinding, found: Tracks, topology: Topology) -> CourseFinding:
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
