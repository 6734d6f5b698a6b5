"""
The method of localisation: the fewest components that explain the bad probes, and the others that would do as well.

A component of which (nearly) every telling probe is bad is a candidate. It lets through what the best of its bad probes
carried, its level; a good probe tells against it only if it carried more (an RNIC held to 240 Gb/s shows nothing on a
path that never carries more than 200). Bad probes at that level are its own; a slower one may be (two probes shared the
component) or may have another cause. Greedily, the candidate that owns most of what is still unexplained is taken; of
equals the one that fewest probes pass through. But a part that explains just what a path does goes before it: a path is
bad because of a part of it unless other probes of that part carried more (an RNIC that lost 5 % shows on its own node
alone, whose paths are the only ones fast enough). Numbers are compared within one kind of probe only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from fabric.judge.locate.candidates import Component
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.text import change_text
from fabric.model.verdict import ProbeVerdict

ENOUGH = 0.9
"""A component is a candidate when at least this share of its telling probes is bad (a choice: one lucky probe in
ten may pass by chance without clearing it)."""

TOLERANCE = 0.05
"""How far apart two numbers must be to speak of different limits (a choice: wider than the noise, narrower than any
fault worth naming)."""

HALF_THE_LOSS = 0.5
"""A mild loss is told from none at half its size: with 5 % a link that lost 4 % would look as good as a healthy one."""

_MOST_CANDIDATES = 24  # in the search for other explanations; a bound on its cost
_MOST_CHOSEN = 3

_SPECIFIC_FIRST = ("path", "gpu_pcie", "nvlink", "numa", "link", "gpu", "rnic", "pcie_switch", "pair")


@dataclass(frozen=True, slots=True)
class Explanation:
    """A component with its evidence: the bad probes through it, those at its level, and how many probes tell of it."""

    component: Component
    bad: frozenset[str]  # probe ids
    own: frozenset[str]
    telling: int
    passing_through: int

    @property
    def share(self) -> float:
        """Of the telling probes, how many are bad."""
        return len(self.bad) / self.telling


def candidates_for(
    judged: Iterable[tuple[Probe, ProbeVerdict]],
    bad: set[str],
    components: Callable[[Probe, ProbeVerdict], Iterator[Component]],
    *,
    enough: float = ENOUGH,
    shares: Mapping[str, float] | None = None,
    cleared: Iterable[tuple[Probe, ProbeVerdict]] = (),
) -> list[Explanation]:
    """
    Every component that may be the cause of some of the *bad* probes: *enough* of what tells of it is bad.

    *shares*: what share of the normal bandwidth a probe reached, by its id, where that is known. *cleared* are further
    probes that went well: they tell of what carried nothing at all, and not of how fast a part is.
    """
    judged, shares = tuple(judged), shares or {}
    tallies: dict[Component, _Tally] = {}
    for probe, verdict in judged:
        if probe.probe_id in bad:
            for component in components(probe, verdict):
                if component not in tallies:
                    tallies[component] = _Tally()
                tallies[component].take_bad(probe.kind, verdict, shares.get(probe.probe_id))
    good = [pair for pair in judged if pair[0].probe_id not in bad]
    _take_good(tallies, good, components, shares)
    _take_good({part: tally for part, tally in tallies.items() if tally.failed}, cleared, components, {})
    found = [tally.candidate(component) for component, tally in tallies.items()]
    return [candidate for candidate in found if candidate.share >= enough]


def _take_good(
    tallies: Mapping[Component, _Tally],
    good: Iterable[tuple[Probe, ProbeVerdict]],
    components: Callable[[Probe, ProbeVerdict], Iterator[Component]],
    shares: Mapping[str, float],
) -> None:
    """Of these components alone: what has no bad probe is nobody's candidate."""
    for probe, verdict in good if tallies else ():
        told = probe.kind, verdict.value_gbps or 0.0, shares.get(probe.probe_id)
        for component in components(probe, verdict):
            tally = tallies.get(component)
            if tally is not None:
                tally.good.append(told)


class _Tally:
    """What speaks for and against one component."""

    def __init__(self) -> None:
        self.bad: list[tuple[str, ProbeVerdict]] = []
        self.good: list[tuple[str, float, float | None]] = []  # kind, value, share of the normal
        self._bad_shares: list[float] = []

    def take_bad(self, kind: str, verdict: ProbeVerdict, share: float | None) -> None:
        self.bad.append((kind, verdict))
        if share is not None:
            self._bad_shares.append(share)

    @property
    def failed(self) -> bool:
        """Whether its bad probes carried nothing at all."""
        return all(verdict.value_gbps is None for _, verdict in self.bad)

    def candidate(self, component: Component) -> Explanation:
        """The component lets through, per kind, what the best of its bad probes carried."""
        best: dict[str, ProbeVerdict] = {}
        for kind, verdict in self.bad:
            if kind not in best or (verdict.value_gbps or 0.0) > (best[kind].value_gbps or 0.0):
                best[kind] = verdict
        above = {kind: (found.value_gbps or 0.0) * (1 + _tolerance(found)) for kind, found in best.items()}
        below = {kind: (found.value_gbps or 0.0) * (1 - _tolerance(found)) for kind, found in best.items()}
        if component.kind == "leaf":
            above = self._above_most()
        as_low = self._as_low() if component.kind == "host" else 0.0
        against = sum(
            value > above.get(kind, -1.0) and (share is None or share > as_low) for kind, value, share in self.good
        )
        return Explanation(
            component,
            bad=frozenset(verdict.probe_id for _, verdict in self.bad),
            own=frozenset(found.probe_id for kind, found in self.bad if (found.value_gbps or 0.0) >= below[kind]),
            telling=len(self.bad) + against,
            passing_through=len(self.bad) + len(self.good),
        )

    def _above_most(self) -> dict[str, float]:
        """
        By kind, what is more than most of the bad ones carried: a leaf that many cross is bad for most of them alike.

        The best of them may be one of a single part that is just below its limit, and that all good ones are near to.
        """
        values: dict[str, list[float]] = {}
        for kind, found in self.bad:
            values.setdefault(kind, []).append((found.value_gbps or 0.0) * (1 + _tolerance(found)))
        return {kind: median(of_kind) for kind, of_kind in values.items()}

    def _as_low(self) -> float:
        """Up to this share of what is normal a good number is as low as the bad ones: by half their loss, or more."""
        if not self._bad_shares:
            return 0.0
        return 1 - HALF_THE_LOSS * (1 - median(self._bad_shares))


def _tolerance(verdict: ProbeVerdict) -> float:
    """How far from this number another speaks of the same limit: half the loss, where what is normal is known."""
    if not verdict.expected_gbps or verdict.value_gbps is None:
        return TOLERANCE
    return min(TOLERANCE, max(0.0, HALF_THE_LOSS * (1 - verdict.value_gbps / verdict.expected_gbps)))


def greedy(candidates: Sequence[Explanation], bad: set[str]) -> list[Explanation]:
    """A short list of candidates that together explain every bad probe (as far as any can)."""
    unexplained = set(bad)
    left = list(candidates)
    chosen: list[Explanation] = []
    while unexplained and left:
        best = max(left, key=lambda candidate: _rank(candidate, unexplained))
        if not best.bad & unexplained:
            break
        if best.component.kind == "path":
            best = _part_of(best, left, unexplained)
        chosen.append(best)
        unexplained -= best.bad
        left = [candidate for candidate in left if candidate.bad & unexplained]
    return chosen


def _part_of(path: Explanation, left: Sequence[Explanation], unexplained: set[str]) -> Explanation:
    """The part that explains just what a path does and as surely, where there is one; else the path itself."""
    shown = path.own & unexplained
    parts = [
        other
        for other in left
        if other.component.kind != "path"
        and other.own & unexplained == shown
        and (other.bad, other.share) == (path.bad, path.share)
    ]
    return max(parts, key=lambda candidate: _rank(candidate, unexplained), default=path)


def _rank(candidate: Explanation, unexplained: set[str]) -> tuple[int, int, float, int, int]:
    kind = candidate.component.kind
    specific = _SPECIFIC_FIRST.index(kind) if kind in _SPECIFIC_FIRST else len(_SPECIFIC_FIRST)
    own, all_bad = len(candidate.own & unexplained), len(candidate.bad & unexplained)
    return own, all_bad, candidate.share, -candidate.passing_through, -specific


def rivals_of(chosen: Sequence[Explanation], candidates: Sequence[Explanation], bad: set[str]) -> list[list[Component]]:
    """
    For each chosen component, those that could take its place in an equally short explanation.

    Explanations are searched among the chosen that share a host, two or three at a time; a wider name for the same
    evidence (the host of one of its parts) is no rival.
    """
    rivals: list[list[Component]] = []
    for best in chosen:
        partners = [other for other in chosen if other is not best and _host(other) == _host(best)]
        around = [*partners, best] if len(partners) < _MOST_CHOSEN else [best]
        elsewhere = frozenset().union(*(other.bad for other in chosen if other not in around))
        target = frozenset().union(*(other.own for other in around)) & bad - elsewhere
        covers = _covers(target, _distinct(candidates, target, around), len(around))
        others = {c.component.name: c.component for cover in covers if best not in cover for c in cover}
        for other in around:
            others.pop(other.component.name, None)
        mine = best.component
        rivals.append([rival for rival in others.values() if not _restates(mine, rival)])
    return rivals


def _distinct(
    candidates: Sequence[Explanation], target: frozenset[str], around: Sequence[Explanation]
) -> list[Explanation]:
    """Candidates that explain a part of the target that none of the others explains wholly, the best first."""
    sure = min(candidate.share for candidate in around)
    useful = [candidate for candidate in candidates if candidate.own & target and candidate.share >= sure]
    useful.sort(key=lambda candidate: (candidate not in around, *(-part for part in _rank(candidate, set(target)))))
    kept: list[Explanation] = []
    for candidate in useful:
        part = candidate.own & target
        if candidate in around or not any(part < other.own & target for other in useful):
            kept.append(candidate)
    return kept[:_MOST_CANDIDATES]


def _covers(target: frozenset[str], candidates: Sequence[Explanation], size: int) -> list[tuple[Explanation, ...]]:
    """Every way to explain the whole target with *size* candidates."""
    return [
        group
        for group in combinations(candidates, size)
        if target <= frozenset().union(*(candidate.own for candidate in group))
    ]


def _host(candidate: Explanation) -> str:
    return Part.of(candidate.component.name).members[0].host


def _restates(best: Component, other: Component) -> bool:
    """A wider name for the same evidence, such as the host for one of its parts, or the pair for one of its hosts."""
    if other.kind == "host" and other.name == Part.of(best.name).host:
        return True
    if other.kind == "pair" or best.name.startswith((f"{other.name}:", f"{other.name}-")):
        return True
    return other.name.startswith((f"{best.name}:", f"{best.name}-"))


_LINES = 5


def evidence_lines(bad: Sequence[tuple[str, ProbeVerdict]]) -> list[str]:
    """
    Numbers as ranges per kind and limit with the worst probe, what tools said once each with its count.

    *bad* holds (kind, verdict) of each bad probe.
    """
    measured: dict[tuple[str, float, str], list[ProbeVerdict]] = {}
    said: dict[str, list[str]] = {}
    for kind, verdict in bad:
        if verdict.value_gbps is not None and verdict.required_gbps is not None:
            measured.setdefault((kind, verdict.required_gbps, verdict.against), []).append(verdict)
        else:
            said.setdefault(verdict.reason, []).append(verdict.probe_id)
    lines = [_range(*key, group) for key, group in measured.items()]
    lines += [_quote(reason, ids) for reason, ids in sorted(said.items(), key=lambda item: -len(item[1]))]
    rest = len(lines) - _LINES
    return lines if rest <= 0 else [*lines[:_LINES], f"and {rest} more lines like these in verdict.json"]


def _range(kind: str, required_gbps: float, against: str, group: Iterable[ProbeVerdict]) -> str:
    values = sorted((verdict.value_gbps or 0.0, verdict.probe_id) for verdict in group)
    (least, worst), most = values[0], values[-1][0]
    numbers = f"{least:.1f}" if least == most else f"{least:.1f} to {most:.1f}"
    share = change_text(least / required_gbps)
    what = f"{against} is {required_gbps:.1f}" if against else f"at least {required_gbps:g} required"
    return f"{len(values)} {kind}: {numbers} Gb/s, {what}; worst {share}: {worst}"


def _quote(reason: str, ids: Sequence[str]) -> str:
    return f"{ids[0]}: {reason}" if len(ids) == 1 else f"{len(ids)} times, first {ids[0]}: {reason}"
