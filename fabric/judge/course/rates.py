"""How often the points of healthy parts dip, and who dips more often, but too seldom to be sure of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.course import shapes
from fabric.judge.course.gather import CourseFinding
from fabric.judge.course.tracks import Point, Track, Tracks, failed_midway
from fabric.model.part import Part
from fabric.model.sampling import CounterCourse

MOSTLY_WELL = 0.1
"""A part that is low more often is slow: it does not say how often healthy ones dip (a choice)."""

_MOST_PROBES = 20  # as ``model.verdict.Suspect``


class DipRates:
    """How often points dip, of what is not explained yet, over all tracks that are well most of the time."""

    def __init__(self, tracks: Iterable[Track], explained: AbstractSet[str]) -> None:
        self._explained = explained
        self._at: dict[str, tuple[int, int]] = {}  # by probe: how often it dips, and how often it is there
        self._dips = self._points = 0
        for track in tracks:
            low = {point.probe_id: _is_low(point.share, track) for point in track.points}
            left = [name for name in low if name not in explained]
            dips = sum(low[name] for name in left)
            if dips > MOSTLY_WELL * len(left):
                continue
            self._dips, self._points = self._dips + dips, self._points + len(left)
            for name in left:
                many, there = self._at.get(name, (0, 0))
                self._at[name] = many + low[name], there + 1

    def of_others(self, track: Track) -> float:
        """
        The rate in all probes but those of *track*, with half a dip for what was not seen.

        A probe of its own that dips is in its partner's track, too, and is no dip of others.
        """
        own = [self._at.get(p.probe_id, (0, 0)) for p in track.points if p.probe_id not in self._explained]
        dips, points = sum(many for many, _ in own), sum(there for _, there in own)
        return (self._dips - dips + 0.5) / (self._points - points + 1.0)


def few_dips(
    found: Tracks,
    named: Iterable[str],
    explained: AbstractSet[str],
    alpha: float,
    *,
    told: AbstractSet[str] = frozenset(),
) -> list[CourseFinding]:
    """
    Parts that dipped more often than their peers, and too seldom for a fleet of this size: findings ``few_dips``.

    The chance of it is below *alpha* for one part alone, and not for the most unlucky one of all. *named* are named
    already, by the *explained* probes; of those *told* more is said, by what was measured again. A host whose RNIC is
    found is not told besides.
    """
    known = set(named)
    some: list[CourseFinding] = []
    for tracks in (found.rnics, found.hosts):
        some += [one for one in _few(tracks, known, explained, alpha) if one.component not in told]
        known = {Part.of(name).host for name in (*known, *(one.component for one in some))}
    return some


def _few(
    tracks: Mapping[str, Track], known: set[str], explained: AbstractSet[str], alpha: float
) -> list[CourseFinding]:
    import numpy as np

    rates = DipRates(tracks.values(), explained)
    some = []
    for name, track in tracks.items():
        left = [point for point in track.points if point.probe_id not in explained]
        low = [point for point in left if _is_low(point.share, track)]
        if not shapes.LEAST_DIPS <= len(low) <= MOSTLY_WELL * len(left) or not known.isdisjoint(_owners(name)):
            continue
        shares = np.array([point.share for point in left])
        one = shapes.dips(shares, rates.of_others(track), floor=track.floor, sigma=track.sigma, alpha=alpha)
        if one is not None:
            text = f"low in {one.count} of {one.n} probes, to {one.depth:.0%} of what is normal"
            ids = tuple(point.probe_id for point in low[:_MOST_PROBES])
            some.append(CourseFinding(name, "few_dips", text, one.chance, sum(1.0 - point.share for point in low), ids))
    return sorted(some, key=lambda one: (one.chance, one.component))


def _owners(component: str) -> tuple[str, str]:
    return component, Part.of(component).host


def _is_low(share: float, track: Track) -> bool:
    return shapes.is_low(share, floor=track.floor, sigma=track.sigma)


Modules = dict[str, dict[str, CounterCourse]]
"""The temperatures of modules by host and device."""


def may_be_bad(track: Track) -> bool:
    """What no rule can name is not looked at more closely: no point of it is below the floor."""
    return min(point.share for point in track.points) < 1.0 - track.floor


def look(
    track: Track, explained: AbstractSet[str], modules: Modules, rates: DipRates, alpha: float
) -> CourseFinding | None:
    """
    What the course of a track is; None when all is well.

    *explained* probes are left out of account. *alpha*: the chance that one healthy part is named.
    """
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


def _came_back(track: Track, points: Sequence[Point]) -> CourseFinding:
    gone = [point for point in points if point.share == 0.0]
    text = (
        f"failed in {len(gone)} of {len(points)} probes, first at {_hours(gone[0].at_s)}, "
        f"last at {_hours(gone[-1].at_s)}, and came back"
    )
    return CourseFinding(track.component, "came_back", text, 0.0, _lost(track, points), _ids(gone), failures=len(gone))


def _with_heat(track: Track, points: Sequence[Point], modules: Modules, alpha: float) -> CourseFinding | None:
    import numpy as np

    host, device = Part.of(track.component).place
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
    return CourseFinding(track.component, "heat", text, best.chance, _lost(track, points), _ids(points))


def _trending(track: Track, points: Sequence[Point], alpha: float) -> CourseFinding | None:
    import numpy as np

    at_s, shares = np.array([(point.at_s, point.share) for point in points]).T
    found = shapes.trend(at_s, shares, floor=track.floor, alpha=alpha)
    if found is None:
        return None
    if found.kind == "step":
        text = _stepped(-found.change, found.at_s)
    else:
        hours = (at_s[-1] - at_s[0]) / 3600.0
        text = f"lost {-found.change:.0%} of its bandwidth by and by, over {hours:.0f} h ({len(points)} probes)"
    return CourseFinding(track.component, found.kind, text, found.chance, _lost(track, points), _ids(points))


def _dipping(track: Track, points: Sequence[Point], rates: DipRates, alpha: float) -> CourseFinding | None:
    import numpy as np

    shares = np.array([point.share for point in points])
    found = shapes.dips(shares, rates.of_others(track), floor=track.floor, sigma=track.sigma, alpha=alpha)
    if found is None:
        return None
    mask = shapes.dip_mask(shares, floor=track.floor, sigma=track.sigma)
    since = shapes.low_since(mask)
    if since is not None and since[1] < alpha:
        first, chance = since
        at_s, lost = points[first].at_s, 1.0 - float(np.median(shares[first:]) / np.median(shares[:first]))
        return CourseFinding(track.component, "step", _stepped(lost, at_s), chance, _lost(track, points), _ids(points))
    if found.count > len(points) / 2:
        text = f"slower than its peers in {found.count} of {found.n} probes: about {found.depth:.0%} of what they carry"
        return CourseFinding(track.component, "low", text, found.chance, _lost(track, points), _ids(points))
    bad = [point for point, is_dip in zip(points, mask, strict=True) if is_dip]
    text = (
        f"dips to {found.depth:.0%} in {found.count} of {found.n} probes (1 in {found.n / found.count:.0f}; 95 % "
        f"interval 1 in {1 / found.high:.0f} to 1 in {1 / max(found.low, 1e-9):.0f}), its peers in "
        f"{rates.of_others(track):.2g}"
    )
    return CourseFinding(track.component, "dips", text, found.chance, _lost(track, points), _ids(bad))


def _lost(track: Track, points: Sequence[Point]) -> float:
    """How much was lost in all, of what is more than noise."""
    return sum(1.0 - point.share for point in points if point.share < 1.0 - track.floor)


def _ids(points: Sequence[Point]) -> tuple[str, ...]:
    worst_first = sorted(points, key=lambda point: point.share)
    return tuple(point.probe_id for point in worst_first[:_MOST_PROBES])


def _stepped(lost: float, at_s: float) -> str:
    return f"lost {lost:.0%} of its bandwidth at once, at about {_hours(at_s)}, and kept it lost"


def _hours(at_s: float) -> str:
    return f"{at_s / 3600.0:.1f} h"
