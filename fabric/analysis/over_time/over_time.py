"""
Who became slower over the hours of a run, dips now and then, cannot bear warmth, or failed and came back.

None of that shows in a median of the whole run, and a single probe that misses its limit does not tell it from bad
luck. Every part has a track (``tracks.py``) that is looked at by the rules of ``over_time.shapes.py``. The
most telling track is named first; its probes then no longer speak against its partners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from fabric.analysis.over_time import shapes
from fabric.analysis.over_time.again import dipped_again, too_many_at_once, with_further
from fabric.analysis.over_time.gather import Finding, gathered
from fabric.analysis.over_time.place import placed
from fabric.analysis.over_time.ports import down_together
from fabric.analysis.over_time.rates import Rates, few_dips
from fabric.analysis.over_time.together import shared_in_tracks, without
from fabric.analysis.over_time.tracks import Point, Track, Tracks, failed_midway, tracks
from fabric.analysis.over_time.uplinks import behind_uplinks
from fabric.analysis.over_time.verdict import ALPHA, with_over_time
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Course, Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

__all__ = ["ALPHA", "over_time", "with_over_time"]

_MOST_PASSES = 4
"""After so many nothing new is looked for (a choice: the second finds what slow ones hid)."""

_MOST_PROBES = 20  # as ``model.verdict.Suspect``
Modules = dict[str, dict[str, Course]]


def over_time(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    topology: Topology,
    samples: Samples,
) -> list[Finding]:
    """
    Everybody whose course is bad, what many share first, then the most telling; last who dips too seldom to be sure.

    Nothing but what ports counted together for a run without a phase of many rounds.
    """
    found = tracks(probes, results, phases, topology)
    down = down_together(samples, topology)
    whole, further = with_further(found, probes, results, phases, topology)
    if not whole.rnics and not whole.hosts:
        return down
    together = shared_in_tracks(found, probes, topology)
    shared = [name for one in together for name in one.explains]
    found, whole = without(found, shared), without(whole, shared)
    modules = _modules(samples)
    named = _named(found.rnics, modules, explained=set())
    guilty = {finding.component.partition("/")[0] for finding in named}
    through = {point.probe_id for host in guilty for point in _over_rnics(found.hosts.get(host))}
    named += _named(found.hosts, modules, explained=through)
    notes: list[Finding] = []
    for _ in range(_MOST_PASSES):  # who is named takes its partners' dips with it
        wanted = {point.probe_id for one in named for point in (*_of(one, whole), *_further(one, further))}
        again = dipped_again(whole, further, probes, [one.component for one in named], wanted, ALPHA)
        notes = [one for one in again if one.kind != "dips"]
        if len(notes) == len(again):
            break
        named += [one for one in again if one.kind == "dips"]
    few = few_dips(found, (one.component for one in named), wanted, ALPHA, told={one.component for one in notes})
    by_id = {probe.probe_id: probe for probe in probes if probe.probe_id in wanted}
    named = [
        replace(
            one,
            hosts=(one.component.partition("/")[0],),
            explains={
                point.probe_id: by_id[point.probe_id].hosts for point in (*_of(one, whole), *_further(one, further))
            },
        )
        for one in named
    ]
    each = placed(gathered(behind_uplinks(named, whole, by_id, topology), whole, topology), whole, topology)
    many = too_many_at_once(found, probes, wanted)
    return [*down, *together, *each, *notes, *few, *many]


def _of(finding: Finding, found: Tracks) -> list[Point]:
    """Every probe that it takes part in."""
    host, _, device = finding.component.partition("/")
    if not device:
        own = [track.points for name, track in found.rnics.items() if name.partition("/")[0] == host]
        return [point for points in (found.hosts[host].points, *own) for point in points]
    return [*found.rnics[finding.component].points, *_over_rnics(found.hosts.get(host))]


def _further(finding: Finding, further: Tracks) -> Sequence[Point]:
    """What was measured again because of an RNIC, or with it."""
    return further.rnics[finding.component].points if finding.component in further.rnics else ()


def _over_rnics(track: Track | None) -> list[Point]:
    """Probes of a host that RNICs have a part in."""
    return [] if track is None else [point for point in track.points if point.kind != "all_to_all"]


def _modules(samples: Samples) -> Modules:
    """The temperatures of modules by host and device."""
    found: Modules = {}
    for reading, course in samples.courses.items():
        if reading.name == "module_c":
            found.setdefault(reading.host, {})[reading.part] = course
    return found


def _named(tracks_: Mapping[str, Track], modules: Modules, *, explained: set[str]) -> list[Finding]:
    """Pass by pass: what was named leaves its probes out of account, and shows who else is not well."""
    named: list[Finding] = []
    for _ in range(_MOST_PASSES):
        left = {name: track for name, track in tracks_.items() if name not in {one.component for one in named}}
        more = _pass(left, modules, explained)
        if not more:
            break
        named += more
    return named


def _pass(tracks_: Mapping[str, Track], modules: Modules, explained: set[str]) -> list[Finding]:
    """Who lost most first (a partner shares only some of it); each takes its probes (into *explained*) with it."""
    alpha = ALPHA / max(1, len(tracks_))
    rates = Rates(tracks_.values(), explained)

    def looked(names: Iterable[str]) -> dict[str, Finding]:
        found = {name: _look(tracks_[name], explained, modules, rates, alpha) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    listed = looked(name for name, track in tracks_.items() if _may_be_bad(track))
    stale: set[str] = set()
    heap = [_order(one) for one in listed.values()]
    heapify(heap)
    named: list[Finding] = []
    while heap:
        name = heappop(heap)[2]
        if name in stale:  # what was named since then took some of its probes
            stale.discard(name)
            again = looked([name]).get(name)
            if again is None:
                del listed[name]
            else:
                listed[name] = again
                heappush(heap, _order(again))
            continue
        best = listed.pop(name)
        others = [tracks_[other] for other in listed]
        find = _also_failed if best.kind == "came_back" else _rivals
        rivals = find(tracks_[name], others, explained)
        named.append(replace(best, rivals=rivals))
        explained |= {point.probe_id for point in tracks_[name].points}
        stale = set(listed)
    return named


def _order(finding: Finding) -> tuple[float, float, str]:
    return -finding.weight, finding.chance, finding.component


def _rivals(track: Track, others: Iterable[Track], explained: set[str]) -> tuple[str, ...]:
    """Those that were measured by the very same probes: nothing here tells them apart."""
    mine = [point.probe_id for point in track.points if point.probe_id not in explained]
    found = []
    for other in others:
        first = next((point.probe_id for point in other.points if point.probe_id not in explained), None)
        if first == mine[0] and [p.probe_id for p in other.points if p.probe_id not in explained] == mine:
            found.append(other.component)
    return tuple(found)


def _also_failed(track: Track, others: Iterable[Track], explained: set[str]) -> tuple[str, ...]:
    """Those that took part in all that failed here: one failure between two ends accuses both alike."""
    mine = _failed(track, explained)
    return tuple(other.component for other in others if mine <= _failed(other, explained))


def _failed(track: Track, explained: set[str]) -> set[str]:
    return {point.probe_id for point in track.points if point.share == 0.0 and point.probe_id not in explained}


def _may_be_bad(track: Track) -> bool:
    """What no rule can name is not looked at more closely: no point of it is below the floor."""
    return min(point.share for point in track.points) < 1.0 - track.floor


def _look(track: Track, explained: set[str], modules: Modules, rates: Rates, alpha: float) -> Finding | None:
    """What the course of a track is; None when all is well."""
    points = [point for point in track.points if point.probe_id not in explained]
    if len(points) < shapes.LEAST_POINTS:
        return None
    if failed_midway(points):
        return _came_back(track, points)
    for kind in dict.fromkeys(point.kind for point in points):
        own = [point for point in points if point.kind == kind]
        found = _with_heat(track, own, modules, alpha) or _trending(track, own, alpha)
        if found is not None:
            return found
    return _dipping(track, points, rates, alpha)


def _came_back(track: Track, points: Sequence[Point]) -> Finding:
    gone = [point for point in points if point.share == 0.0]
    text = (
        f"failed in {len(gone)} of {len(points)} probes, first at {_hours(gone[0].at_s)}, "
        f"last at {_hours(gone[-1].at_s)}, and came back"
    )
    return Finding(track.component, "came_back", text, 0.0, _lost(track, points), _ids(gone), failures=len(gone))


def _with_heat(track: Track, points: Sequence[Point], modules: Modules, alpha: float) -> Finding | None:
    import numpy as np

    host, _, device = track.component.partition("/")
    courses = [course for part, course in modules.get(host, {}).items() if device in ("", part)]
    best: shapes.Heat | None = None
    for course in courses:
        pairs = [(course.value_at(point.at_s), point.share) for point in points]
        known = [(float(celsius), share) for celsius, share in pairs if celsius is not None]
        if len(known) >= shapes.LEAST_POINTS:
            celsius, shares = np.array(known).T
            found = shapes.heat(celsius, shares, floor=track.floor, alpha=alpha / len(courses))
            if found is not None and (best is None or found.chance < best.chance):
                best = found
    if best is None:
        return None
    text = (
        f"loses {-best.change:.0%} of its bandwidth when its module warms from {best.cold_c:.0f} to "
        f"{best.warm_c:.0f} C (rank correlation {best.rho:.2f} over {len(points)} probes)"
    )
    return Finding(track.component, "heat", text, best.chance, _lost(track, points), _ids(points))


def _trending(track: Track, points: Sequence[Point], alpha: float) -> Finding | None:
    import numpy as np

    at_s, shares = np.array([(point.at_s, point.share) for point in points]).T
    found = shapes.trend(at_s, shares, floor=track.floor, alpha=alpha)
    if found is None:
        return None
    if found.kind == "step":
        text = f"lost {-found.change:.0%} of its bandwidth at once, at about {_hours(found.at_s)}, and kept it lost"
    else:
        hours = (at_s[-1] - at_s[0]) / 3600.0
        text = f"lost {-found.change:.0%} of its bandwidth by and by, over {hours:.0f} h ({len(points)} probes)"
    return Finding(track.component, found.kind, text, found.chance, _lost(track, points), _ids(points))


def _dipping(track: Track, points: Sequence[Point], rates: Rates, alpha: float) -> Finding | None:
    import numpy as np

    shares = np.array([point.share for point in points])
    found = shapes.dips(shares, rates.of_others(track), floor=track.floor, sigma=track.sigma, alpha=alpha)
    if found is None:
        return None
    if found.count > len(points) / 2:
        text = f"slower than its peers in {found.count} of {found.n} probes: about {found.depth:.0%} of what they carry"
        return Finding(track.component, "low", text, found.chance, _lost(track, points), _ids(points))
    bad = [point for point, is_dip in zip(points, shapes.dip_mask(shares, floor=track.floor, sigma=track.sigma),
                                          strict=True) if is_dip]  # fmt: skip
    text = (
        f"dips to {found.depth:.0%} in {found.count} of {found.n} probes (1 in {found.n / found.count:.0f}; 95 % "
        f"interval 1 in {1 / found.high:.0f} to 1 in {1 / max(found.low, 1e-9):.0f}), its peers in "
        f"{rates.of_others(track):.2g}"
    )
    return Finding(track.component, "dips", text, found.chance, _lost(track, points), _ids(bad))


def _lost(track: Track, points: Sequence[Point]) -> float:
    """How much was lost in all, of what is more than noise."""
    return sum(1.0 - point.share for point in points if point.share < 1.0 - track.floor)


def _ids(points: Sequence[Point]) -> tuple[str, ...]:
    worst_first = sorted(points, key=lambda point: point.share)
    return tuple(point.probe_id for point in worst_first[:_MOST_PROBES])


def _hours(at_s: float) -> str:
    return f"{at_s / 3600.0:.1f} h"
