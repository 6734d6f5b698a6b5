"""
What further tests say of a part that had dipped: it dips more often than its peers, it is cleared, or it stays open.

The dip because of which a part was chosen does not count: among thousands of healthy parts some dip once, and these are
the ones that are chosen. What was measured afterwards is free of that choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.course import shapes
from fabric.judge.course.dips.in_round import are_too_many
from fabric.judge.course.dips.tests import partner_of
from fabric.judge.course.gather import CourseFinding
from fabric.judge.course.rates import DipRates
from fabric.judge.course.tracks import LEAST_ROUNDS, Point, Track, Tracks, tracks
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.probes import pairwise

OPEN, CLEARED, TOO_MANY = "dips_open", "dips_cleared", "dips_too_many"
"""The kinds of findings that are told and accuse nobody."""

WAYS = 2
"""In so many ways a part is found: with enough dips before its tests are spent, or with fewer when they are. Either may
err, so the chance of an error is divided by it."""


LEAST_TO_CLEAR = 60
"""With fewer tests, none of which dipped, a part stays open (a choice: with so many it is known with 95 % that it dips
in fewer than 1 of 20)."""

DOUBT = 0.05
"""A partner with which all of a part's dips were is well when others' tests with it would all be so by chance only so
seldom (a choice)."""

_EXPLAINED = "dipped with a part that is named"

_Ends = Mapping[str, tuple[str, str]]
"""By probe id because of whom a further test was run, and its partner."""


def with_further(
    found: Tracks,
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    topology: Topology,
) -> tuple[Tracks, Tracks]:
    """
    What was *found* of planned probes, and the tracks of further tests.

    A further test tells without a course: with those of phases that ran too seldom for one come their planned probes.
    """
    followed = {probe.phase for probe in probes if AGAIN in probe.params}
    if not followed:
        return found, Tracks({}, {})
    repeated = {(phase.written, phase.where) for phase in phases if phase.name in followed}
    own = [phase for phase in phases if (phase.written, phase.where) in repeated]
    further = tracks(probes, results, own, topology, again=True, least_rounds=1)
    rounds = Counter((phase.written, phase.where) for phase in own)
    if min(rounds.values(), default=LEAST_ROUNDS) >= LEAST_ROUNDS:
        return found, further
    few = tracks(probes, results, own, topology, least_rounds=1)
    return Tracks({**few.rnics, **found.rnics}, {**few.hosts, **found.hosts}), further


def lost_again(further: Tracks, probes: Sequence[Probe]) -> dict[str, float]:
    """By RNIC how much its own further tests lost to dips, in bandwidths of one; none for who did not dip again."""
    whose = {probe.probe_id: probe.params[AGAIN] for probe in probes if AGAIN in probe.params}
    lost: dict[str, float] = {}
    for part, track in further.rnics.items():
        own = [1.0 - p.share for p in track.points if whose.get(p.probe_id) == part and _is_low(p, track)]
        if own:
            lost[part] = sum(own)
    return lost


def dipped_again(
    found: Tracks,
    further: Tracks,
    probes: Sequence[Probe],
    named: Iterable[str],
    explained: AbstractSet[str],
    alpha: float,
) -> list[CourseFinding]:
    """
    One finding for each part with *further* tests that nothing has *named* yet: ``dips``, or one of the notes.

    *alpha*: the chance that of all healthy parts that were measured again any is found. Tests with a partner that is
    named do not count. Of a part that dipped only with those that are named nothing is noted; it is found all the same
    where its further tests dip.
    """
    whose = {probe.probe_id: (str(probe.params[AGAIN]), partner_of(probe)) for probe in probes if AGAIN in probe.params}
    if not whose:
        return []
    known = set(named)
    parts = [part for part in dict.fromkeys(part for part, _ in whose.values()) if part in further.rnics]
    rates = DipRates(found.rnics.values(), explained)
    listed = []
    for part in parts:
        level = further.rnics[part]
        own = [one for one in level.points if whose[one.probe_id][0] == part]
        own = [one for one in own if not _is_known(whose[one.probe_id][1], known)]
        planned = found.rnics.get(part, Track(part))
        first = _first(planned, explained, asked_with=_dips_of_others(level, whose))
        if not own or _is_known(part, known):
            continue
        chance = alpha / (WAYS * len(parts))
        said = _said(first or _EXPLAINED, own, level, rates.of_others(planned), chance)
        if said.kind == "dips":
            other = _doubtful(part, own, further, whose)
            listed.append(said if not other else _either(said, first or _EXPLAINED, other))
        elif first:
            listed.append(said)
    return sorted(listed, key=lambda one: (-one.weight, one.component))


def _dips_of_others(level: Track, whose: _Ends) -> bool:
    """Whether a test dipped in which it was the partner."""
    return any(whose[one.probe_id][1] == level.component and _is_low(one, level) for one in level.points)


def _doubtful(part: str, own: Sequence[Point], further: Tracks, whose: _Ends) -> str:
    """A partner with which all its dips were, and of which others' tests do not show that it is well; else empty."""
    low = [one for one in own if _is_low(one, further.rnics[part])]
    others = {whose[one.probe_id][1] for one in low}
    if len(others) != 1:
        return ""
    (other,) = others
    level = further.rnics[other]
    together = sum(whose[one.probe_id][1] == other for one in own)
    apart = [one for one in level.points if part not in whose[one.probe_id]]
    if any(_is_low(one, level) for one in apart):
        return other
    return other if (1.0 - len(low) / together) ** len(apart) > DOUBT else ""


def _either(said: CourseFinding, first: str, other: str) -> CourseFinding:
    """A note instead: one of two."""
    text = f"{first}, and in {len(said.probes)} more, all of them with {other}: it may be either; more rounds do"
    return CourseFinding(said.component, OPEN, text, 1.0, said.weight, said.probes)


def _first(planned: Track, explained: AbstractSet[str], *, asked_with: bool) -> str:
    """Why it was measured again; empty where it dipped only with a part that is named."""
    dips = [one for one in planned.points if _is_low(one, planned)]
    own = sum(one.probe_id not in explained for one in dips)
    if dips and not own:
        return ""
    if not own and asked_with:
        return "may be why another part's further tests with it dipped"
    if not own:
        return "may be why a collective of its host dipped"
    times = "once" if own == 1 else f"{own} times"
    return f"dipped {times} in {sum(one.probe_id not in explained for one in planned.points)} probes"


def _said(first: str, own: Sequence[Point], level: Track, rate: float, alpha: float) -> CourseFinding:
    """What its *own* further tests say; *rate*: how often its peers dip. *first*: why it was measured again."""
    import numpy as np

    part = level.component
    low = [one for one in own if _is_low(one, level)]
    lost = sum(1.0 - one.share for one in low)
    ids = tuple(one.probe_id for one in low)
    if not low and len(own) < LEAST_TO_CLEAR:
        text = f"{first}, not again in {len(own)} more: too few to clear it; more rounds do"
        return CourseFinding(part, OPEN, text, 1.0, 0.0, ())
    if not low:
        most = 1.0 - 0.05 ** (1.0 / len(own))  # none in n at this rate has a chance of 5 %
        text = f"{first}, not again in {len(own)} more: no suspect (95 %: it dips in fewer than 1 of {1 / most:.0f})"
        seen = 1.0 if first.startswith("dipped") else 0.0  # told before those that only their host accused
        return CourseFinding(part, CLEARED, text, 1.0, seen, ())
    shares = np.array([one.share for one in own])
    found = shapes.dips(shares, rate, floor=level.floor, sigma=level.sigma, alpha=alpha)
    if found is None:
        text = f"{first}, and in {len(low)} of {len(own)} more: too few to tell from chance; more rounds do"
        return CourseFinding(part, OPEN, text, 1.0, lost, ids)
    text = (
        f"dips to {found.depth:.0%} in {found.count} of {found.n} further probes (1 in {found.n / found.count:.0f}; "
        f"95 % interval 1 in {1 / found.high:.0f} to 1 in {1 / max(found.low, 1e-9):.0f}), its peers in {rate:.2g}; "
        f"they were run because it {first}, which does not count"
    )
    return CourseFinding(part, "dips", text, found.chance, lost, ids)


def too_many_at_once(found: Tracks, probes: Sequence[Probe], explained: AbstractSet[str]) -> list[CourseFinding]:
    """A note for each round in which more pair tests dipped than single parts would explain: nobody was followed."""
    points = [(point, track) for track in found.rnics.values() for point in track.points if point.kind == pairwise.KIND]
    low = {point.probe_id for point, track in points if point.probe_id not in explained and _is_low(point, track)}
    if not are_too_many(len(low), 0):
        return []
    all_of = {point.probe_id for point, _ in points}
    compared = Counter(probe.phase for probe in probes if probe.probe_id in all_of)
    counted = Counter(probe.phase for probe in probes if probe.probe_id in low)
    followed = {probe.phase for probe in probes if AGAIN in probe.params}
    text = "pair tests dipped at once: no single part, so none was measured again"
    return [
        CourseFinding(phase, TOO_MANY, f"{count} {text}", 1.0, 0.0, ())
        for phase, count in counted.items()
        if are_too_many(count, compared[phase]) and phase not in followed
    ]


def _is_low(point: Point, track: Track) -> bool:
    return shapes.is_low(point.share, floor=track.floor, sigma=track.sigma)


def _is_known(part: str, known: AbstractSet[str]) -> bool:
    return part in known or Part.of(part).host in known
