"""What another test would say more about: suspects that are not certain, and parts that nothing has cleared yet."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma

import numpy as np

from fabric.judge.locate.pairs.fitted import DRAWN, Fitted
from fabric.judge.locate.search import CERTAIN, CHANCE
from fabric.judge.locate.structure import UNKNOWN, Bools, Ints

_CLEARED = 2
_ODD = 4.0  # sigmas below what is expected


def to_settle(fitted: Fitted) -> list[int]:
    """
    Components that another test would say more about: blamed but not certain, their rivals, and open ones.

    What a slow sample drew that nothing explains is open: the next draw may show it again.
    """
    found = dict.fromkeys(uncertain(fitted))
    found.update(dict.fromkeys(fitted.decoded.open))
    found.update(dict.fromkeys(_unexplained_hosts(fitted)))
    drawn = fitted.components.paths[_odd(fitted) & fitted.samples.drawn]
    found.update(dict.fromkeys(c for c in np.unique(drawn).tolist() if c != UNKNOWN and _is_bundle(fitted, c)))
    return list(found)


def _is_bundle(fitted: Fitted, component: int) -> bool:
    return bool(fitted.components.incidence.bundle[component])


def uncertain(fitted: Fitted) -> list[int]:
    """Components that are blamed, and not certain yet, with their rivals, and those that are likely to be."""
    found: dict[int, None] = {}
    for blamed in fitted.decoded.blamed:
        if blamed.margin < CERTAIN or blamed.doubt == DRAWN:
            found[blamed.component] = None
            found.update(dict.fromkeys(blamed.rivals))
    found.update(dict.fromkeys(fitted.decoded.likely))
    return list(found)


def _odd(fitted: Fitted) -> Bools:
    """Slow samples that nothing explains."""
    explained = fitted.decoded.explained
    odd: Bools = (explained == 0) & (fitted.ratio < 1 - _ODD * fitted.noise)
    return odd


def _unexplained_hosts(fitted: Fitted) -> list[int]:
    """
    Host sides that are not cleared: a dip, or a partner that is bad anyway, may hide a fault of theirs.

    Those are hosts with a slow sample that nothing explains and fewer than two good ones, and hosts that were never
    measured with anything good; under a bad leaf it is enough that the partner is good with others.
    """
    samples, components = fitted.samples, fitted.components
    odd = _odd(fitted)
    good = (fitted.decoded.explained == 0) & ~odd
    ends = np.concatenate([samples.a[good], samples.b[good]])
    count = np.bincount(ends, minlength=len(samples.hosts))
    hosts = sorted(set(samples.a[odd].tolist()) | set(samples.b[odd].tolist()))
    blamed = {int(components.part[blamed.component]) for blamed in fitted.decoded.blamed}
    side = {int(h): c for c, h in enumerate(components.hosts) if components.kinds[c] == "host"}
    bad_leaves = {int(components.leaf[c]) for c in blamed if components.kinds[c] == "leaf"}
    with_good = set(samples.a[count[samples.b] > 0].tolist()) | set(samples.b[count[samples.a] > 0].tolist())
    measured = sorted({*samples.a.tolist(), *samples.b.tolist()})
    hidden = [
        host
        for host in measured
        if count[host] == 0 and not (int(samples.leaf[host]) in bad_leaves and host in with_good)
    ]
    doubtful = [*(host for host in hosts if count[host] < _CLEARED), *hidden]
    return [side[host] for host in dict.fromkeys(doubtful) if side[host] not in blamed]


def not_crossed(fitted: Fitted) -> list[int]:
    """
    Directions that no good sample has gone through, uplinks first: nothing cleared them, though nothing accuses them.

    Of an uplink only those that a route leads over, to a host that is not bad; none beside a part that is bad, which
    would hide them anyway. None at all where samples do not tell which end sent.
    """
    components = fitted.components
    good = (fitted.decoded.explained == 0) & ~_odd(fitted)
    count = _through(components.paths, good, len(components.names))
    blamed = {int(components.part[blamed.component]) for blamed in fitted.decoded.blamed}
    bad = np.isin(components.part, list(blamed))
    usable = _usable(fitted, bad)
    leaves = {int(components.leaf[c]) for c in blamed if components.kinds[c] == "leaf"}
    on_leaf = np.append(fitted.samples.leaf, UNKNOWN)[components.hosts]
    side = (components.hosts != UNKNOWN) & ~bad & ~np.isin(on_leaf, list(leaves - {UNKNOWN}))
    directed = components.part != np.arange(len(bad))
    found = np.flatnonzero((count == 0) & directed & (side | usable)).tolist()
    return sorted(found, key=lambda c: components.kinds[c].startswith("host"))


def _usable(fitted: Fitted, bad: Bools) -> Bools:
    """Components on the routes from a good host of each leaf to each host, on which nothing is bad."""
    samples, components = fitted.samples, fitted.components
    found = np.zeros(len(bad) + 1, dtype=np.bool_)  # the last: of no component
    well = np.flatnonzero(~bad[components.host_sides])
    leaves, first = np.unique(samples.leaf[well], return_index=True)
    leaf, b = np.nonzero(samples.route[leaves] != UNKNOWN)
    if len(b):
        paths = components.way(well[first][leaf], b, samples.route[leaves[leaf], b])
        found[paths[~np.append(bad, False)[paths].any(axis=1)].ravel()] = True
    return found[:-1]


_LEAST = 2  # slow samples that share a part
_PARTS_MOST = 4
_NEGLIGIBLE = 1e-12  # terms of the tail sink from there on


@dataclass(frozen=True, slots=True)
class SlowTogether:
    """*name* of a part, the indexes of the slow *samples* through it, and how many pass *through* it in all."""

    name: str
    samples: Ints
    through: int


def shared_parts(fitted: Fitted, odd: Bools, planes: int = 1) -> tuple[SlowTogether, ...]:
    """
    The parts that *odd* samples share beyond chance, the least likely first; a sample counts for one part only.

    *planes* is how many are looked at for one verdict, this one among them.
    """
    components, left = fitted.components, odd.copy()
    looked_at = len(set(components.part.tolist())) * planes
    through = _through(components.paths, np.ones(len(odd), dtype=np.bool_), len(components.names))
    found: list[SlowTogether] = []
    while left.sum() >= _LEAST and len(found) < _PARTS_MOST:
        slow = _through(components.paths, left, len(components.names))
        chances = {
            c: _chance(len(odd), int(left.sum()), int(through[c]), int(slow[c]))
            for c in np.flatnonzero((slow >= _LEAST) & (slow * len(odd) > 2 * through * left.sum())).tolist()
        }
        # Of equally unlikely ones the whole part before its directions, which come after it.
        best = min(chances, key=lambda c: (chances[c], c), default=UNKNOWN)
        if best == UNKNOWN or chances[best] * looked_at > CHANCE:
            break
        mine = left & (components.paths == best).any(axis=1)
        found.append(SlowTogether(components.names[best], np.flatnonzero(mine), int(through[best])))
        left &= ~mine
    return tuple(found)


def _through(paths: Ints, which: Bools, components: int) -> Ints:
    """How many of some samples pass through each component."""
    crossed = paths[which].ravel()
    found: Ints = np.bincount(crossed[crossed != UNKNOWN], minlength=components)
    return found


def _chance(samples: int, slow: int, through: int, both: int) -> float:
    """That of *slow* among *samples*, *both* or more are among the *through* that pass a part, by chance."""
    total = 0.0
    for k in range(max(both, slow + through - samples), min(slow, through) + 1):
        ways = _log_ways(through, k) + _log_ways(samples - through, slow - k) - _log_ways(samples, slow)
        total += exp(ways)
        if exp(ways) < _NEGLIGIBLE * total:
            break
    return min(total, 1.0)


def _log_ways(of: int, chosen: int) -> float:
    """Logarithm of the binomial coefficient."""
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)
