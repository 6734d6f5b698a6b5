"""From rows of pair results, of any tool, to the verdict: which part is bad, how sure, and what to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from statistics import median_high

import numpy as np

from fabric.judge.locate.levels import CROWDED, OF_PLACE
from fabric.judge.locate.matrix import SIGMAS
from fabric.judge.locate.pairs.against_limit import LowPairs
from fabric.judge.locate.pairs.failed import failed_tests
from fabric.judge.locate.pairs.findings import NAMES_MOST, good_again, sigmas_of, unexplained
from fabric.judge.locate.pairs.fitted import LEAST_SLOW, TWICE, Fitted, fit_together
from fabric.judge.locate.pairs.judged import LEAST_HOSTS, VerdictLine, judged, shared_parts, slow_alone
from fabric.judge.locate.pairs.rounds import targeted
from fabric.judge.locate.pairs.samples import PairSamples, natural, planes_of
from fabric.judge.locate.structure import FLOOR, UNKNOWN, Bools
from fabric.model.diagnosis import Diagnosis, PairFailure, PairMatrix, PairRow, PairTest
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect

MOST_HOSTS = 24
"""The most hosts that a matrix shows: of more hosts, those that are blamed and as many of their peers."""

EIGHTH = 1 / 8
"""The factor from a number in Gb/s to the same in GB/s."""

_NEAR_EIGHTH, _LEAST_EIGHTHS = 0.1, 2  # share of an eighth; least samples, as one may be just a bad one (choices)
_NEXT_MOST = 32
_MATRICES_MOST = 4
_RAIL_LOSS = 0.05  # loss from which a whole rail is reported: more than rails of one make differ


def diagnose(
    rows: Sequence[PairRow],
    *,
    topology: Topology | None = None,
    limit_gbps: float | None = None,
    floor: float = FLOOR,
    failures: Sequence[PairFailure] = (),
) -> Diagnosis:
    """
    Judge pair results; *failures* are tests that gave none.

    FAIL: a part is bad (which one may be ambiguous), or what was measured is below the limit. INCONCLUSIVE: nothing to
    compare with, too few or too noisy samples for the effect floor, a trouble that nothing explains, or failed tests.
    MARGINAL: good, except for single slow samples. PASS: every host that was measured was cleared.
    """
    failed = failed_tests(failures, rows, topology)
    lines = list(failed.judged)
    kinds: dict[str, list[PairSamples]] = {}
    for samples in planes_of(rows, topology):
        if (samples.gbps > 0).any():
            limited = replace(samples, limit_gbps=nan if limit_gbps is None else limit_gbps)
            kinds.setdefault(samples.kind, []).append(limited)
        else:
            lines.append((Outcome.INCONCLUSIVE, f"nothing but zeros was measured{samples.where}"))
    planes = [one for alike in kinds.values() for one in fit_together(alike, floor=floor)]
    found = judged(planes, limit_alone=True, more=[one for one, _ in failed.suspects])
    lines += [*found.open, *_no_peers(planes, limit_gbps)]
    if limit_gbps is None:  # with a limit, each rail is judged by that
        lines += slow_rails(planes, topology) + levels_apart(planes)
    of_failed = {one.component: text for one, text in failed.suspects}
    drawn = any(one.samples.drawn.any() for one in planes)
    lines += [(one.outcome, of_failed.get(one.component) or _reason(one, drawn=drawn)) for one in found.suspects]
    if not lines:
        clean = f"no host, link or switch is slower than its peers by {floor:.0%} or more"
        lines.append((Outcome.PASS, clean) if planes else (Outcome.INCONCLUSIVE, "nothing was measured"))
    lines.sort(key=lambda one: -one[0].rank)
    hosts = dict.fromkeys(host for one in planes for host in one.samples.hosts)
    tests = [test for one, low in zip(planes, found.pairs, strict=True) for test in _next_tests(one, low, len(planes))]
    used = {host for test in tests for host in (test.a, test.b)}
    for test in failed.next_tests:
        if used.isdisjoint((test.a, test.b)):  # a host takes part once in a round
            tests.append(test)
            used |= {test.a, test.b}
    slow = [one for one in planes if one.blamed] or planes[:1]
    return Diagnosis(
        outcome=Outcome.worst(outcome for outcome, _ in lines),
        reasons=tuple(dict.fromkeys(text for _, text in lines)),
        suspects=found.suspects,
        classes=tuple(one for plane in planes for one in plane.classes),
        next_tests=tuple(dict.fromkeys(tests))[:_NEXT_MOST],
        hosts=tuple(hosts | dict.fromkeys(sorted(set(failed.hosts) - set(hosts), key=natural))),
        samples=sum(len(one.ratio) for one in planes),
        notes=_notes(planes, topology),
        matrices=tuple(matrix_of(one, [h for h in failed.hosts if h not in hosts]) for one in slow[:_MATRICES_MOST]),
    )


def _reason(suspect: Suspect, *, drawn: bool) -> str:
    """Return a suspect in a line; two that cannot be told apart are never both blamed. *drawn*: ways are not known."""
    text = "is bad" if suspect.outcome is Outcome.FAIL else "may be bad: more samples are needed"
    if suspect.ambiguous_with:
        others = ", ".join(suspect.ambiguous_with[:NAMES_MOST])
        return f"one of these {text}, and they cannot be told apart yet: {suspect.component}, {others}"
    if suspect.kind in ("group", "pair"):
        text = "below the limit as a whole"
    elif suspect.kind == "path" and "below the limit" in suspect.evidence[0]:
        text = f"{suspect.evidence[0]}; measure it again"
        if suspect.outcome is Outcome.INCONCLUSIVE:
            text = f"slow once each way; {TWICE}"
    elif suspect.kind in (("uplinks", "path") if drawn else ("path",)) and suspect.outcome is Outcome.FAIL:
        text = "detected, not localised further (the path is not known)"
    else:
        return f"{suspect.component} {text}"
    return f"{suspect.component}: {text}"


def _no_peers(planes: Sequence[Fitted], limit_gbps: float | None) -> list[VerdictLine]:
    """Return a line for each plane with too few hosts to compare."""
    if limit_gbps is None:
        outcome, more = Outcome.INCONCLUSIVE, f"measure {LEAST_HOSTS} or more, or give a limit"
    else:
        outcome, more = Outcome.PASS, "judged by the limit alone"
    few = [one.samples for one in planes if len(one.samples.hosts) < LEAST_HOSTS]
    return [(outcome, f"{len(one.hosts)} hosts have no peers to be compared with{one.where}: {more}") for one in few]


def _next_tests(fitted: Fitted, low: LowPairs, planes: int) -> list[PairTest]:
    """Return tests that would settle what is open, then of parts that slow samples share, then of slow pairs again."""
    samples = fitted.samples
    tests = targeted(fitted)
    used = {host for test in tests for host in (test.a, test.b)}
    alone, single = slow_alone(fitted), unexplained(fitted)
    reasons = [
        *(
            (mine, f"tells about {fitted.components.names[component]}: slow samples share it")
            for component, mine in shared_parts(fitted, alone, planes).items()
        ),
        (
            np.flatnonzero(low.once & ~good_again(fitted, low.once)),
            "below the limit once, beside good samples of the pair",
        ),
        (np.flatnonzero(alone & ~low.once & ~good_again(fitted, alone)), "slow once, and nothing explains it"),
        (np.flatnonzero(low.low & ~single), "below the limit"),
        (np.flatnonzero(far_above(fitted) & np.isnan(samples.limits_gbps)), "far above what is called normal"),
    ]
    for sample, why in ((sample, why) for which, why in reasons for sample in which.tolist()):
        a, b, via = samples.hosts[samples.a[sample]], samples.hosts[samples.b[sample]], int(samples.via[sample])
        if a not in used and b not in used and len(tests) < _NEXT_MOST:
            tests.append(PairTest(a, b, samples.spines[via] if via != UNKNOWN else None, why))
            used |= {a, b}
    return tests


def matrix_of(fitted: Fitted, not_measured: Sequence[str] = ()) -> PairMatrix:
    """Return mean ratios between at most ``MOST_HOSTS`` hosts, and half as many of those that were *not_measured*."""
    samples = fitted.samples
    shown = _shown(fitted)
    if not_measured:
        shown = sorted([*shown, *not_measured[: MOST_HOSTS // 2]], key=natural)
    place = {name: number for number, name in enumerate(shown)}
    at = np.array([place.get(name, UNKNOWN) for name in samples.hosts])
    inside = (at[samples.a] != UNKNOWN) & (at[samples.b] != UNKNOWN)
    cell = at[samples.a[inside]] * len(shown) + at[samples.b[inside]]
    total = np.bincount(cell, fitted.ratio[inside], minlength=len(shown) ** 2).reshape(len(shown), -1)
    count = np.bincount(cell, minlength=len(shown) ** 2).reshape(len(shown), -1)
    if not samples.both_ways:
        total, count = total + total.T, count + count.T
    ratios = tuple(
        tuple(float(t / n) if n else None for t, n in zip(*row, strict=True)) for row in zip(total, count, strict=True)
    )
    least = 1 - max(fitted.floor, 3 * fitted.noise)
    return PairMatrix(samples.kind, samples.rail, tuple(shown), ratios, samples.both_ways, least)


def _shown(fitted: Fitted) -> list[str]:
    hosts = fitted.samples.hosts
    if len(hosts) <= MOST_HOSTS:
        return list(hosts)
    bad = sorted({int(fitted.components.hosts[blamed.component]) for blamed in fitted.blamed} - {UNKNOWN})
    peers = [host for host in range(len(hosts)) if host not in bad]
    return [hosts[host] for host in sorted([*bad[: MOST_HOSTS // 2], *peers[: MOST_HOSTS // 2]])]


def _notes(planes: Sequence[Fitted], topology: Topology | None) -> tuple[str, ...]:
    notes = []
    eighths = sum(int((np.abs(one.ratio - EIGHTH) <= _NEAR_EIGHTH * EIGHTH).sum()) for one in planes)
    if eighths >= _LEAST_EIGHTHS:  # only a note: a link may really have lost as much
        question = "results are about an eighth of what good pairs reach: are they in GB/s, and the others in Gb/s?"
        notes.append(f"{eighths} {question}")
    spines = any(one.samples.spines for one in planes)
    if topology is None:
        text = "leaves and uplinks are not known: only hosts, pairs and spines"
        text = text if spines else "leaves, uplinks and spines are not known: only hosts and pairs"
        notes.append(f"without an inventory {text} can be named")
    elif any(one.samples.leaves and not one.samples.spines for one in planes):
        known = "which uplink and spine a test crossed is not known (adaptive routing or ECMP)"
        notes.append(f"{known}: they are not in the model, only all uplinks of a leaf together")
    return tuple(notes)


def slow_rails(planes: Sequence[Fitted], topology: Topology | None) -> list[VerdictLine]:
    """
    Return an INCONCLUSIVE line for each rail that is slower than the others of its kind, line rate and link class.

    It is no FAIL: without a limit nobody knows whether such a rail is bad, or of other hardware by design.
    """
    alike: dict[tuple[str, float | None], list[tuple[str, float]]] = {}
    for plane in planes:
        samples = plane.samples
        if samples.rail is None or len(samples.hosts) < LEAST_HOSTS:
            continue
        known = (topology.hosts.get(name) for name in samples.hosts) if topology else ()
        rnics = (host.platform.rnic_by_device.get(samples.rail) for host in known if host is not None)
        rate = next((rnic.line_rate_gbps for rnic in rnics if rnic is not None), None)
        for one in plane.classes:
            where = f"{samples.kind}, {one.name}" if samples.kind else one.name
            alike.setdefault((where, rate), []).append((samples.rail, one.gbps))
    found = []
    for (where, _), rails in alike.items():
        usual = median_high(gbps for _, gbps in rails)
        for rail, gbps in rails:
            if gbps < (1 - _RAIL_LOSS) * usual:
                reached = f"{gbps:,.1f} Gb/s, {gbps / usual:.0%} of the usual {usual:,.1f} Gb/s of {len(rails)} rails"
                text = f"{rail} as a whole ({where}) reaches {reached}: its leaf switches and their settings first"
                found.append((Outcome.INCONCLUSIVE, f"{text}; is it slower by design, give a limit"))
    return found


def far_above(plane: Fitted) -> Bools:
    """
    Return which samples are far above what is called normal, unless others of the same pair are as usual.

    Disturbances make a test slower, never faster: one such sample may be all that shows what most hosts should reach.
    """
    noise = np.array([one.noise for one in plane.classes])[plane.of_class]
    high = plane.ratio > 1 + np.maximum(OF_PLACE, SIGMAS * noise)
    if high.sum() >= LEAST_SLOW:
        return high
    far = plane.ratio > 1 + np.maximum(OF_PLACE, sigmas_of(plane) * noise)
    return far & ~good_again(plane, far)


def levels_apart(planes: Sequence[Fitted]) -> list[VerdictLine]:
    """
    Return an INCONCLUSIVE line for each plane whose samples differ by more than places do, and no part explains it.

    Either some are far faster than what is called normal: then most hosts may be bad. Or groups of hosts, found in the
    results, reach far less among each other, alike and not spread as by others' traffic. It is no FAIL: without a limit
    nobody knows what is meant to be so.
    """
    found = []
    for plane in planes:
        samples, usual_gbps = plane.samples, max((one.gbps for one in plane.classes), default=0.0)
        fast = far_above(plane)
        if fast.any():
            reached = f"up to {samples.gbps[fast].max():,.1f} Gb/s, far above the normal of their class"
            text = f"{fast.sum()} of {len(fast)} samples reach {reached}{samples.where}"
            found.append(
                (Outcome.INCONCLUSIVE, f"{text}: if that is what is normal, most hosts are slow; give a limit")
            )
        for one in plane.classes:
            if one.groups and one.gbps < (1 - OF_PLACE) * usual_gbps and one.noise < CROWDED:
                reached = f"{one.gbps:,.1f} Gb/s, {one.gbps / usual_gbps:.0%} of the usual {usual_gbps:,.1f} Gb/s"
                text = f"{one.name}{samples.where}: pairs reach {reached}"
                found.append((Outcome.INCONCLUSIVE, f"{text}: is it slower by design, give a limit or an inventory"))
    return found
