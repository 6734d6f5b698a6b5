"""From rows of pair results, of any tool, to the verdict: which part is bad, how sure, and what to measure next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_high

import numpy as np

from fabric.judge.locate.pairs.against_limit import Below, below_limit, said_once, whole_suspects, with_pairs
from fabric.judge.locate.pairs.failed import FailedPairs, failed_tests
from fabric.judge.locate.pairs.findings import of_paths, some, suspects_of, unexplained
from fabric.judge.locate.pairs.fitted import EFFECT_FLOOR, Fitted, fit_together
from fabric.judge.locate.pairs.planes import natural, planes_of
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.pairs.settle import SlowTogether, shared_parts, to_settle
from fabric.judge.locate.pairs.targeted import targeted
from fabric.judge.locate.structure import UNKNOWN, Bools
from fabric.model.diagnosis import Diagnosis, LinkClass, PairMatrix, PairTest
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.tools.pairs.rows import PairFailure, PairRow

MOST_HOSTS = 24
"""Of more hosts, those that are blamed and as many of their peers are shown."""


def matrix_of(test: str, fitted: Fitted, not_measured: Sequence[str] = ()) -> PairMatrix:
    """Mean ratios between at most ``MOST_HOSTS`` hosts, and half as many of those that were *not_measured*."""
    samples = fitted.samples
    hosts = _chosen(fitted)
    place = np.full(len(samples.hosts), UNKNOWN)
    place[hosts] = np.arange(len(hosts))
    inside = (place[samples.a] != UNKNOWN) & (place[samples.b] != UNKNOWN)
    cell = place[samples.a[inside]] * len(hosts) + place[samples.b[inside]]
    total = np.bincount(cell, fitted.ratio[inside], minlength=len(hosts) ** 2).reshape(len(hosts), -1)
    count = np.bincount(cell, minlength=len(hosts) ** 2).reshape(len(hosts), -1)
    if not samples.both_ways:
        total, count = total + total.T, count + count.T
    ratios = tuple(
        tuple(float(t / n) if n else None for t, n in zip(*row, strict=True)) for row in zip(total, count, strict=True)
    )
    names = tuple(samples.hosts[host] for host in hosts)
    empty = [host for host in not_measured if host not in samples.hosts][: MOST_HOSTS // 2]
    if empty:
        names, ratios = _with_empty(names, ratios, empty)
    return PairMatrix(
        test, samples.rail, names, ratios, samples.both_ways, 1 - max(fitted.least_loss, 3 * fitted.noise)
    )


def _with_empty(
    names: tuple[str, ...], ratios: tuple[tuple[float | None, ...], ...], empty: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[float | None, ...], ...]]:
    """With a row and a column for each host of which nothing is known, in their place."""
    place = {name: number for number, name in enumerate(names)}
    every = tuple(sorted((*names, *empty), key=natural))
    drawn = tuple(
        tuple(ratios[place[row]][place[column]] if row in place and column in place else None for column in every)
        for row in every
    )
    return every, drawn


def _chosen(fitted: Fitted) -> list[int]:
    everybody = range(len(fitted.samples.hosts))
    if len(everybody) <= MOST_HOSTS:
        return list(everybody)
    bad = sorted({int(fitted.components.hosts[blamed.component]) for blamed in fitted.decoded.blamed} - {UNKNOWN})
    chosen = bad[: MOST_HOSTS // 2]
    peers = [host for host in everybody if host not in bad][: MOST_HOSTS // 2]
    return sorted([*chosen, *peers])


_EVIDENCE_MOST = 8
_LEAST_RAILS = 2


def merged(suspects: Sequence[Suspect], rails: Mapping[str, int]) -> list[Suspect]:
    """FAIL first, then by confidence. *rails* says on how many rails each host was measured."""
    by_name: dict[str, Suspect] = {}
    for suspect in suspects:
        known = by_name.get(suspect.component)
        by_name[suspect.component] = suspect if known is None else _joined(known, suspect)
    found = _whole_hosts(list(by_name.values()), rails)
    return sorted(found, key=lambda one: (one.outcome is not Outcome.FAIL, -one.confidence, one.component))


def _joined(first: Suspect, second: Suspect) -> Suspect:
    """The same part in two kinds of test: the surer verdict, the evidence of both, only rivals that both allow."""
    surer, other = (first, second) if first.confidence >= second.confidence else (second, first)
    rivals = tuple(name for name in surer.ambiguous_with if name in other.ambiguous_with or not other.ambiguous_with)
    return replace(
        surer,
        outcome=Outcome.worst((first.outcome, second.outcome)),
        ambiguous_with=rivals,
        evidence=tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:_EVIDENCE_MOST],
        probes=(*first.probes, *second.probes),
    )


def _whole_hosts(suspects: list[Suspect], rails: Mapping[str, int]) -> list[Suspect]:
    """One suspect for a host of which every measured rail, two at least, is bad."""
    of_host: dict[str, list[Suspect]] = {}
    for suspect in suspects:
        if suspect.kind == "rnic":
            of_host.setdefault(suspect.hosts[0], []).append(suspect)
    whole = {
        host
        for host, parts in of_host.items()
        if len({_rnic(part.component) for part in parts}) >= max(rails.get(host, 0), _LEAST_RAILS)
    }
    kept = [suspect for suspect in suspects if suspect.kind != "rnic" or suspect.hosts[0] not in whole]
    return kept + [_host(host, of_host[host]) for host in whole]


def _rnic(component: str) -> str:
    return str(Part.of(component).both_ways)


def _host(host: str, parts: Sequence[Suspect]) -> Suspect:
    names = ", ".join(sorted(part.component.split("/")[-1] for part in parts))
    return Suspect(
        component=host,
        kind="host",
        outcome=Outcome.worst(part.outcome for part in parts),
        confidence=max(part.confidence for part in parts),
        evidence=(f"all measured rails of the host are slow: {names}", *parts[0].evidence[1:])[:_EVIDENCE_MOST],
        next_step="what all rails share first: power, BIOS, PCIe settings, firmware; then loopback on each RNIC",
        hosts=(host,),
        probes=tuple(name for part in parts for name in part.probes),
    )


EIGHTH = 1 / 8
"""Of a number in Gb/s the same in GB/s."""

_NEAR = 0.1  # as a share of it (a choice: noise and small losses)
_LEAST = 2  # a single one is a bad sample like another (a choice)


def mixed_units(planes: Sequence[tuple[str, Fitted]]) -> list[str]:
    """A note when several results are so; none else. It judges nothing: a link may have lost as much."""
    count = sum(int((np.abs(fitted.ratio - EIGHTH) <= _NEAR * EIGHTH).sum()) for _, fitted in planes)
    if count < _LEAST:
        return []
    return [f"{count} results are about an eighth of what good pairs reach: are they in GB/s, and the others in Gb/s?"]


LEAST_HOSTS = 4
"""With fewer, nobody has peers to be compared with: then only a limit can judge."""

DIPS = 0.01
"""Share of single slow samples that is normal (transient dips); more is a trouble that was not localised."""

_SIGMAS = 3.0
_NEXT_MOST = 32
_NAMES_MOST = 6
_MATRICES_MOST = 4
_NONE_FAILED = FailedPairs()


def diagnose(
    rows: Sequence[PairRow],
    *,
    topology: Topology | None = None,
    limit_gbps: float | None = None,
    floor: float = EFFECT_FLOOR,
    failures: Sequence[PairFailure] = (),
) -> Diagnosis:
    """
    Judge pair results; *failures* are tests that gave none.

    FAIL: a part is bad (which one may be ambiguous), or what was measured is below the limit. INCONCLUSIVE: nothing to
    compare with, too few or too noisy samples for the effect floor, a trouble that nothing explains, or failed tests.
    MARGINAL: good, but for single slow samples. PASS: everybody measured was cleared.
    """
    judged: list[tuple[Outcome, str]] = []
    kinds: dict[str, list[PairSamples]] = {}
    for kind, samples in planes_of(rows, topology):
        if (samples.gbps > 0).any():
            kinds.setdefault(kind, []).append(samples)
        else:
            judged.append((Outcome.INCONCLUSIVE, f"nothing but zeros was measured{where_text(kind, samples)}"))
    planes = [(kind, one) for kind, alike in kinds.items() for one in fit_together(alike, floor=floor)]
    failed = failed_tests(failures, rows, topology)
    return diagnosis_of(planes, judged, topology=topology, limit_gbps=limit_gbps, floor=floor, failed=failed)


def diagnosis_of(
    planes: Sequence[tuple[str, Fitted]],
    judged: Sequence[tuple[Outcome, str]] = (),
    *,
    topology: Topology | None = None,
    limit_gbps: float | None = None,
    floor: float = EFFECT_FLOOR,
    failed: FailedPairs = _NONE_FAILED,
) -> Diagnosis:
    """The verdict on planes that are decoded, each with its kind of test; *judged* is what was found before."""
    judged = [*judged, *failed.judged]
    suspects: list[Suspect] = []
    next_tests: list[PairTest] = []
    for kind, fitted in planes:
        mine, open_, below = _of_plane(kind, fitted, limit_gbps, floor, len(planes))
        suspects += mine
        judged += open_
        next_tests += _next_tests(fitted, below, len(planes))
    if limit_gbps is None:  # with one, each rail is judged by it
        judged += slow_rails([one for one in planes if len(one[1].samples.hosts) >= LEAST_HOSTS], topology)
    found = merged([*suspects, *failed.suspects], rails_of(planes))
    said = dict(failed.said)
    judged += [(s.outcome, said[s.component]) if s.component in said else _reason(s) for s in found]
    next_tests = _and_failed(next_tests, failed.next_tests)
    hosts = dict.fromkeys(host for _, fitted in planes for host in fitted.samples.hosts)
    hosts |= dict.fromkeys(sorted((host for host in failed.hosts if host not in hosts), key=natural))
    if planes and not judged:
        judged.append((Outcome.PASS, f"no host, link or switch is slower than its peers by {floor:.0%} or more"))
    if not planes and not judged:
        judged.append((Outcome.INCONCLUSIVE, "nothing was measured"))
    judged.sort(key=lambda one: -one[0].rank)
    return Diagnosis(
        outcome=Outcome.worst(outcome for outcome, _ in judged),
        reasons=tuple(dict.fromkeys(text for _, text in judged)),
        suspects=tuple(found),
        classes=tuple(found_class for kind, fitted in planes for found_class in _classes(kind, fitted)),
        next_tests=tuple(dict.fromkeys(next_tests))[:_NEXT_MOST],
        hosts=tuple(hosts),
        samples=sum(len(fitted.samples.a) for _, fitted in planes),
        notes=_notes(planes, topology),
        matrices=_matrices(planes, failed.hosts),
    )


def _of_plane(
    kind: str, fitted: Fitted, limit_gbps: float | None, floor: float, planes: int
) -> tuple[list[Suspect], list[tuple[Outcome, str]], Below | None]:
    """Suspects of one of *planes*, what else keeps it from being clean, and what of it is below the limit."""
    samples, where = fitted.samples, where_text(kind, fitted.samples)
    compared = len(samples.hosts) >= LEAST_HOSTS
    suspects = suspects_of(fitted, where) if compared else []
    judged: list[tuple[Outcome, str]] = []
    below: Below | None = None
    if limit_gbps is not None:
        below = below_limit(fitted, np.full(len(samples.gbps), limit_gbps), where)
        suspects += [*(whole_suspects([below.classes]) if below.classes else ()), *below.hosts]
        below = with_pairs(below, fitted, limit_gbps, where, suspects, named_parts=compared)
        suspects += below.pairs
        judged += [(Outcome.INCONCLUSIVE, text) for text in below.near]
        judged += said_once(fitted, below.once, limit_gbps, where)
    said = below.low if below is not None else None
    judged += doubts(fitted, where, floor, said, planes=planes) if compared else _no_peers(samples, where, limit_gbps)
    return suspects, judged, below


def _and_failed(tests: Sequence[PairTest], failed: Sequence[PairTest]) -> list[PairTest]:
    """Failed tests after the others, as far as their hosts are free: each host is in a round once."""
    used = {host for test in tests for host in (test.a, test.b)}
    return [*tests, *(test for test in failed if used.isdisjoint((test.a, test.b)))]


def where_text(kind: str, samples: PairSamples) -> str:
    """The kind of test and the rail in brackets, with a blank before; nothing when neither is known."""
    said = ", ".join(part for part in (kind, samples.rail or "") if part)
    return f" ({said})" if said else ""


def _reason(suspect: Suspect) -> tuple[Outcome, str]:
    """A suspect in a line; two that cannot be told apart are never both blamed."""
    said = "is bad" if suspect.outcome is Outcome.FAIL else "may be bad: more samples are needed"
    if suspect.ambiguous_with:
        others = ", ".join(suspect.ambiguous_with[:_NAMES_MOST])
        return suspect.outcome, f"one of these {said}, and they cannot be told apart yet: {suspect.component}, {others}"
    if suspect.kind in ("group", "pair"):
        return suspect.outcome, f"{suspect.component}: below the limit as a whole"
    if suspect.kind == "path" and suspect.outcome is Outcome.INCONCLUSIVE:
        text = "slow each time, and as many dips as there are here make such pairs by chance: measure it again"
        return suspect.outcome, f"{suspect.component}: {text}"
    if suspect.kind == "path" and "below the limit" in suspect.evidence[0]:
        return suspect.outcome, f"{suspect.component}: {suspect.evidence[0]}; measure it again"
    if suspect.kind in ("uplinks", "path"):
        return suspect.outcome, f"{suspect.component}: detected, not localised further (the path is not known)"
    return suspect.outcome, f"{suspect.component} {said}"


def _no_peers(samples: PairSamples, where: str, limit_gbps: float | None) -> list[tuple[Outcome, str]]:
    few = f"{len(samples.hosts)} hosts have no peers to be compared with{where}"
    if limit_gbps is None:
        return [(Outcome.INCONCLUSIVE, f"{few}: measure {LEAST_HOSTS} or more, or give a limit")]
    return [(Outcome.PASS, f"{few}: judged by the limit alone")]


DRAW_AGAIN = "measure the same pairs again: each draw takes another way"
"""What tells of samples over ways that are not known."""


def doubts(
    fitted: Fitted, where: str, floor: float, said: Bools | None = None, *, planes: int = 1
) -> list[tuple[Outcome, str]]:
    """
    What keeps one of *planes* from being clean although no part is to blame.

    *said* are samples that are told of already.
    """
    samples, found = fitted.samples, list[tuple[Outcome, str]]()
    slow = unexplained(fitted) & ~of_paths(fitted)
    for shared in _shared(fitted, slow, planes):
        text = (
            f"{len(shared.samples)} slow samples{where} share {shared.name} ({shared.through} samples pass through it)"
        )
        found.append((Outcome.INCONCLUSIVE, f"{text}: not transient, not certain either; test it again"))
    single = slow if said is None else slow & ~said
    odd, lost = int(single.sum()), int((single & (samples.gbps == 0)).sum())
    allowed = max(DIPS * len(samples.a), 1)
    again = DRAW_AGAIN if odd and samples.drawn[single].all() else "test again"
    if lost:
        text = f"{lost} of {len(samples.a)} samples were lost and no part explains them{where}: {again}"
        found.append((Outcome.INCONCLUSIVE, text))
    elif odd > 2 * allowed:
        text = f"{odd} of {len(samples.a)} samples are slow and no part explains them{where}: detected, not localised"
        found.append((Outcome.INCONCLUSIVE, f"{text}; {again}" if again == DRAW_AGAIN else text))
    elif odd:
        found.append((Outcome.MARGINAL, f"{odd} of {len(samples.a)} samples are slow once{where}: transient, {again}"))
    good = fitted.decoded.explained == 0
    ends = np.concatenate([samples.a[good], samples.b[good]])
    count = np.bincount(ends, minlength=len(samples.hosts))
    needed = int(np.ceil((_SIGMAS * fitted.noise / floor) ** 2))
    weak = [samples.hosts[host] for host in np.flatnonzero((count > 0) & (count < needed))]
    hidden = [samples.hosts[host] for host in np.flatnonzero(count == 0)]
    blamed = {host for b in fitted.decoded.blamed for host in _host_of(fitted, b.component)}
    hidden = [host for host in hidden if host not in blamed]
    if weak:
        text = f"{len(weak)} hosts have too few samples to rule out {floor:.0%}{where}: {needed} each are needed"
        found.append((Outcome.INCONCLUSIVE, f"{text} at a noise of {fitted.noise:.1%} ({some(weak)})"))
    if hidden:
        text = f"not cleared{where}, measured only over parts that are bad: {some(hidden)}"
        found.append((Outcome.INCONCLUSIVE, text))
    return found


def _shared(fitted: Fitted, slow: Bools, planes: int) -> list[SlowTogether]:
    """
    The parts that *slow* samples share, which are slow once no longer.

    Of a part that is bad for certain, and its directions, it is said already: they are slower still.
    """
    components, found = fitted.components, []
    blamed = [one.component for one in fitted.decoded.blamed if one.certain]
    bad = {components.names[c] for one in blamed for c in (one, int(components.part[one]))}
    for shared in shared_parts(fitted, slow, planes):
        slow[shared.samples] = False
        if shared.name not in bad:
            found.append(shared)
    return found


def _host_of(fitted: Fitted, component: int) -> list[str]:
    host = int(fitted.components.hosts[component])
    return [fitted.samples.hosts[host]] if host >= 0 else []


def _next_tests(fitted: Fitted, below: Below | None, planes: int) -> list[PairTest]:
    """Tests that would settle what is open, then parts that slow samples share, then what is slow again."""
    tests = list(targeted(fitted)) if to_settle(fitted) else []
    used = {host for test in tests for host in (test.a, test.b)}
    samples, paths = fitted.samples, of_paths(fitted)
    single = unexplained(fitted) & ~paths
    shared = _shared(fitted, single, planes)
    none = np.zeros(len(single), dtype=np.bool_)
    low, once = (none, none) if below is None else (below.low & ~single & ~paths, below.once)
    reasons = [
        *((one.samples, f"tells about {one.name}: slow samples share it") for one in shared),
        (np.flatnonzero(paths), "slow every time, and nothing else explains it"),
        (np.flatnonzero(once), "below the limit once, beside good samples of the pair"),
        (np.flatnonzero(single & ~once), "slow once, and nothing explains it"),
        (np.flatnonzero(low), "below the limit"),
    ]
    for sample, why in ((sample, why) for which, why in reasons for sample in which.tolist()):
        a, b, via = samples.hosts[samples.a[sample]], samples.hosts[samples.b[sample]], int(samples.via[sample])
        if a not in used and b not in used and len(tests) < _NEXT_MOST:
            tests.append(PairTest(a, b, samples.spines[via] if via != UNKNOWN else None, why))
            used |= {a, b}
    return tests


def _classes(kind: str, fitted: Fitted) -> list[LinkClass]:
    count = np.bincount(fitted.of_class, minlength=len(fitted.classes))
    return [
        LinkClass(one.name, kind, fitted.samples.rail, found.gbps, found.noise, int(n), one.groups)
        for one, found, n in zip(fitted.classes, fitted.references, count, strict=True)
    ]


def _matrices(planes: Sequence[tuple[str, Fitted]], failed: Sequence[str]) -> tuple[PairMatrix, ...]:
    """Of the planes in which something is blamed, else of the first; with hosts of which every test *failed*."""
    measured = {host for _, fitted in planes for host in fitted.samples.hosts}
    never = [host for host in failed if host not in measured]
    slow = [one for one in planes if one[1].decoded.blamed] or list(planes[:1])
    return tuple(matrix_of(kind, fitted, never) for kind, fitted in slow[:_MATRICES_MOST])


def rails_of(planes: Sequence[tuple[str, Fitted]]) -> dict[str, int]:
    """On how many rails each host was measured."""
    rails: dict[str, set[str]] = {}
    for _, fitted in planes:
        if fitted.samples.rail is not None:
            for host in fitted.samples.hosts:
                rails.setdefault(host, set()).add(fitted.samples.rail)
    return {host: len(found) for host, found in rails.items()}


def _notes(planes: Sequence[tuple[str, Fitted]], topology: Topology | None) -> tuple[str, ...]:
    notes = mixed_units(planes)
    if topology is None:
        spines = any(len(fitted.samples.spines) for _, fitted in planes)
        said = "leaves and uplinks are not known: only hosts, pairs and spines" if spines else ""
        said = said or "leaves, uplinks and spines are not known: only hosts and pairs"
        notes.append(f"without an inventory {said} can be named")
    elif any(fitted.samples.leaves and not len(fitted.samples.spines) for _, fitted in planes):
        known = "which uplink and spine a test crossed is not known (adaptive routing or ECMP)"
        notes.append(f"{known}: they are not in the model, only all uplinks of a leaf together")
    return tuple(notes)


_RAIL_LOSS = 0.05  # of a whole rail, from which it is said: wider than what rails of one make differ


def slow_rails(planes: Sequence[tuple[str, Fitted]], topology: Topology | None) -> list[tuple[Outcome, str]]:
    """
    One INCONCLUSIVE line for each rail behind the others of its kind, line rate and link class.

    It is no FAIL: without a limit nobody knows whether such a rail is bad, or of other hardware by design.
    """
    alike: dict[tuple[str, str, float | None], list[tuple[str, float]]] = {}
    for kind, fitted in planes:
        rail = fitted.samples.rail
        if rail is None:
            continue
        for grouping, found in zip(fitted.classes, fitted.references, strict=True):
            key = (kind, grouping.name, _line_rate_gbps(fitted, rail, topology))
            alike.setdefault(key, []).append((rail, found.gbps))
    judged = []
    for (kind, name, _), rails in alike.items():
        usual = median_high(gbps for _, gbps in rails)
        where = f"{kind}, {name}" if kind else name
        judged += [
            (Outcome.INCONCLUSIVE, _slower_rail(rail, gbps, where, usual, len(rails)))
            for rail, gbps in rails
            if gbps < (1 - _RAIL_LOSS) * usual
        ]
    return judged


def _slower_rail(rail: str, gbps: float, where: str, usual_gbps: float, rails: int) -> str:
    return (
        f"{rail} as a whole ({where}) reaches {gbps:,.1f} Gb/s, {gbps / usual_gbps:.0%} of the usual "
        f"{usual_gbps:,.1f} Gb/s of {rails} rails: its leaf switches and their settings first; is it slower by design, "
        "give a limit"
    )


def _line_rate_gbps(fitted: Fitted, rail: str, topology: Topology | None) -> float | None:
    """The line rate of a rail's RNICs where the inventory knows it, of the first host that has one."""
    if topology is None:
        return None
    hosts = (topology.hosts[name] for name in fitted.samples.hosts if name in topology.hosts)
    known = (host.platform.rnic_by_device.get(rail) for host in hosts)
    return next((rnic.line_rate_gbps for rnic in known if rnic is not None), None)
