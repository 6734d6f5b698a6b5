"""
Who became slower over the hours of a run, dips now and then, cannot bear warmth, or failed and came back.

None of that shows in a median of the whole run, and a single probe that misses its limit does not tell it from bad
luck. Every part has a track (``tracks.py``) that is looked at by the rules of ``over_time.shapes.py``. The
most telling track is named first; its probes then no longer speak against its partners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from fabric.judge.course.dips.again import dipped_again, lost_again, too_many_at_once, with_further
from fabric.judge.course.gather import CourseFinding, gathered, placed
from fabric.judge.course.ports import down_together
from fabric.judge.course.rates import DipRates, Modules, few_dips, look, may_be_bad
from fabric.judge.course.shapes import is_low
from fabric.judge.course.together import shared_in_tracks, without
from fabric.judge.course.tracks import Point, Track, Tracks, tracks
from fabric.judge.course.uplinks import behind_uplinks, leaf_dips
from fabric.judge.course.verdict import ALPHA, with_over_time
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

__all__ = ["ALPHA", "over_time", "with_over_time"]

_MOST_PASSES = 4
"""After so many nothing new is looked for (a choice: the second finds what slow ones hid)."""


def over_time(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    topology: Topology,
    samples: Samples,
) -> list[CourseFinding]:
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
    beyond = leaf_dips(found.rnics, probes, topology, ALPHA)
    across = {name for one in beyond for name in one.explains}
    named = _named(found.rnics, modules, explained=set(across), again=lost_again(further, probes))
    guilty = {Part.of(finding.component).host for finding in named}
    through = {point.probe_id for host in guilty for point in _over_rnics(found.hosts.get(host))}
    named += _named(found.hosts, modules, explained=through, again={})
    notes: list[CourseFinding] = []
    for _ in range(_MOST_PASSES):  # who is named takes its partners' dips with it
        wanted = {point.probe_id for one in named for point in (*_of(one, whole), *_further(one, further))} | across
        known = [one.component for one in named if not _is_dipping_host(one)]
        again = dipped_again(whole, further, probes, known, wanted, ALPHA)
        notes = [one for one in again if one.kind != "dips"]
        if len(notes) == len(again):
            break
        more = [one for one in again if one.kind == "dips"]
        told = {Part.of(one.component).host for one in more}  # which RNIC of a host it is
        named = [*(one for one in named if not (_is_dipping_host(one) and one.component in told)), *more]
    few = few_dips(found, (one.component for one in named), wanted, ALPHA, told={one.component for one in notes})
    by_id = {probe.probe_id: probe for probe in probes if probe.probe_id in wanted}
    named = [
        replace(
            one,
            hosts=(Part.of(one.component).host,),
            explains={
                point.probe_id: by_id[point.probe_id].hosts for point in (*_of(one, whole), *_further(one, further))
            },
        )
        for one in named
    ]
    behind = [*behind_uplinks(named, whole, by_id, topology), *beyond]
    each = placed(gathered(behind, whole, topology), whole, topology)
    many = too_many_at_once(found, probes, wanted)
    return [*down, *together, *each, *notes, *few, *many]


def _is_dipping_host(finding: CourseFinding) -> bool:
    """Its collectives dip: further tests may say which of its RNICs does."""
    return finding.kind == "dips" and "/" not in finding.component


def _of(finding: CourseFinding, found: Tracks) -> list[Point]:
    """Every probe that it takes part in."""
    host, device = Part.of(finding.component).place
    if not device:
        own = [track.points for name, track in found.rnics.items() if Part.of(name).host == host]
        return [point for points in (found.hosts[host].points, *own) for point in points]
    return [*found.rnics[finding.component].points, *_over_rnics(found.hosts.get(host))]


def _further(finding: CourseFinding, further: Tracks) -> Sequence[Point]:
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


def _named(
    tracks_: Mapping[str, Track], modules: Modules, *, explained: set[str], again: Mapping[str, float]
) -> list[CourseFinding]:
    """
    Pass by pass: what was named leaves its probes out of account, and shows who else is not well.

    *again*: what further tests of a part lost to dips. Of two that dipped together it tells who it is.
    """
    named: list[CourseFinding] = []
    for _ in range(_MOST_PASSES):
        left = {name: track for name, track in tracks_.items() if name not in {one.component for one in named}}
        more = _pass(left, modules, explained, again)
        if not more:
            break
        named += more
    return named


def _pass(
    tracks_: Mapping[str, Track], modules: Modules, explained: set[str], again: Mapping[str, float]
) -> list[CourseFinding]:
    """Who lost most first (a partner shares only some of it); each takes its probes (into *explained*) with it."""
    alpha = ALPHA / max(1, len(tracks_))
    rates = DipRates(tracks_.values(), explained)

    def looked(names: Iterable[str]) -> dict[str, CourseFinding]:
        found = {name: look(tracks_[name], explained, modules, rates, alpha) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    listed = looked(name for name, track in tracks_.items() if may_be_bad(track))
    stale: set[str] = set()
    low = _low(tracks_[name] for name in listed)
    heap = [_order(one, again) for one in listed.values()]
    heapify(heap)
    named: list[CourseFinding] = []
    while heap:
        name = heappop(heap)[2]
        if name in stale:  # what was named since then took some of its probes
            stale.discard(name)
            anew = looked([name]).get(name)
            if anew is None:
                del listed[name]
            else:
                listed[name] = anew
                heappush(heap, _order(anew, again))
            continue
        best = listed.pop(name)
        if best.kind not in ("came_back", "dips"):
            rivals = _same_probes(tracks_[name], [tracks_[other] for other in listed], explained)
        else:
            rivals = () if again.get(name) else _same_dips(tracks_[name], low, listed, explained, best.kind)
        named.append(replace(best, rivals=rivals))
        explained |= {point.probe_id for point in tracks_[name].points}
        stale = set(listed)
    return named


def _order(finding: CourseFinding, again: Mapping[str, float]) -> tuple[float, float, str]:
    return -finding.weight - again.get(finding.component, 0.0), finding.chance, finding.component


def _same_probes(track: Track, others: Iterable[Track], explained: set[str]) -> tuple[str, ...]:
    """Those that were measured by the very same probes: nothing here tells them apart."""
    mine = [point.probe_id for point in track.points if point.probe_id not in explained]
    found = []
    for other in others:
        first = next((point.probe_id for point in other.points if point.probe_id not in explained), None)
        if first == mine[0] and [p.probe_id for p in other.points if p.probe_id not in explained] == mine:
            found.append(other.component)
    return tuple(found)


def _low(tracks_: Iterable[Track]) -> dict[str, list[str]]:
    """By probe that is low, the parts on whose tracks it is so."""
    found: dict[str, list[str]] = {}
    for track in tracks_:
        for point in track.points:
            if is_low(point.share, floor=track.floor, sigma=track.sigma):
                found.setdefault(point.probe_id, []).append(track.component)
    return found


def _same_dips(
    track: Track, low: Mapping[str, Sequence[str]], listed: Collection[str], explained: set[str], kind: str
) -> tuple[str, ...]:
    """Those that took part in all that dipped here, or failed: two dips between two ends accuse both alike."""
    mine = [
        set(low.get(point.probe_id, ()))
        for point in track.points
        if point.probe_id not in explained
        and (point.share == 0.0 if kind == "came_back" else track.component in low.get(point.probe_id, ()))
    ]
    alike = set.intersection(*mine) if mine else set()
    return tuple(sorted(alike.intersection(listed)))
