"""How often the points of healthy parts dip, and who dips more often, but too seldom to be sure of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from fabric.analysis.over_time import shapes
from fabric.analysis.over_time.gather import Finding
from fabric.analysis.over_time.tracks import Track, Tracks

MOSTLY_WELL = 0.1
"""A part that is low more often is slow: it does not say how often healthy ones dip (a choice)."""

_MOST_PROBES = 20  # as ``model.verdict.Suspect``


class Rates:
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
) -> list[Finding]:
    """
    Parts that dipped more often than their peers, and too seldom for a fleet of this size: findings ``few_dips``.

    The chance of it is below *alpha* for one part alone, and not for the most unlucky one of all. *named* are named
    already, by the *explained* probes; of those *told* more is said, by what was measured again. A host whose RNIC is
    found is not told besides.
    """
    known = set(named)
    some: list[Finding] = []
    for tracks in (found.rnics, found.hosts):
        some += [one for one in _few(tracks, known, explained, alpha) if one.component not in told]
        known = {name.partition("/")[0] for name in (*known, *(one.component for one in some))}
    return some


def _few(tracks: Mapping[str, Track], known: set[str], explained: AbstractSet[str], alpha: float) -> list[Finding]:
    import numpy as np

    rates = Rates(tracks.values(), explained)
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
            some.append(Finding(name, "few_dips", text, one.chance, sum(1.0 - point.share for point in low), ids))
    return sorted(some, key=lambda one: (one.chance, one.component))


def _owners(component: str) -> tuple[str, str]:
    return component, component.partition("/")[0]


def _is_low(share: float, track: Track) -> bool:
    return shapes.is_low(share, floor=track.floor, sigma=track.sigma)
