"""From rows of pair results, of any tool, to the verdict: which part is bad, how sure, and what to measure next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric.analysis.pairs.against_limit import below_limit
from fabric.analysis.pairs.findings import suspects_of, unexplained
from fabric.analysis.pairs.fitted import EFFECT_FLOOR, Fitted, fit
from fabric.analysis.pairs.matrix import matrix_of
from fabric.analysis.pairs.merge import merged
from fabric.analysis.pairs.planes import planes_of
from fabric.analysis.pairs.samples import PairSamples
from fabric.analysis.pairs.settle import to_settle
from fabric.analysis.pairs.targeted import targeted
from fabric.model.diagnosis import Diagnosis, LinkClass, PairMatrix, PairTest
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.tools.pair_rows import PairRow

LEAST_HOSTS = 4
"""With fewer, nobody has peers to be compared with: then only a limit can judge."""

DIPS = 0.01
"""Share of single slow samples that is normal (transient dips); more is a trouble that was not localised."""

_SIGMAS = 3.0
_NEXT_MOST = 32
_NAMES_MOST = 6
_MATRICES_MOST = 4


def diagnose(
    rows: Sequence[PairRow],
    *,
    topology: Topology | None = None,
    limit_gbps: float | None = None,
    floor: float = EFFECT_FLOOR,
) -> Diagnosis:
    """
    Judge pair results.

    FAIL: a part is bad (which one may be ambiguous), or what was measured is below the limit as a whole. INCONCLUSIVE:
    nothing to compare with, too few or too noisy samples for the effect floor, or a trouble that nothing explains.
    MARGINAL: good, but for single slow samples. PASS: everybody measured was cleared.
    """
    judged: list[tuple[Outcome, str]] = []
    planes: list[tuple[str, Fitted]] = []
    for kind, samples in planes_of(rows, topology):
        if (samples.gbps > 0).any():
            planes.append((kind, fit(samples, floor=floor)))
        else:
            judged.append((Outcome.INCONCLUSIVE, f"nothing but zeros was measured{where_text(kind, samples)}"))
    return diagnosis_of(planes, judged, topology=topology, limit_gbps=limit_gbps, floor=floor)


def diagnosis_of(
    planes: Sequence[tuple[str, Fitted]],
    judged: Sequence[tuple[Outcome, str]] = (),
    *,
    topology: Topology | None = None,
    limit_gbps: float | None = None,
    floor: float = EFFECT_FLOOR,
) -> Diagnosis:
    """The verdict on planes that are decoded, each with its kind of test; *judged* is what was found before."""
    judged = list(judged)
    suspects: list[Suspect] = []
    next_tests: list[PairTest] = []
    for kind, fitted in planes:
        samples, where = fitted.samples, where_text(kind, fitted.samples)
        compared = len(samples.hosts) >= LEAST_HOSTS
        mine = suspects_of(fitted, where) if compared else []
        judged += doubts(fitted, where, floor) if compared else _no_peers(samples, where, limit_gbps)
        if limit_gbps is not None:
            below, near = below_limit(fitted, limit_gbps, where)
            mine += below
            judged += [(Outcome.INCONCLUSIVE, text) for text in near]
        suspects += mine
        next_tests += _next_tests(fitted)
    found = merged(suspects, rails_of(planes))
    judged += [_reason(suspect) for suspect in found]
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
        hosts=tuple(dict.fromkeys(host for _, fitted in planes for host in fitted.samples.hosts)),
        samples=sum(len(fitted.samples.a) for _, fitted in planes),
        notes=_notes(planes, topology),
        matrices=_matrices(planes),
    )


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
    if suspect.kind in ("uplinks", "path"):
        return suspect.outcome, f"{suspect.component}: detected, not localised further (the path is not known)"
    return suspect.outcome, f"{suspect.component} {said}"


def _no_peers(samples: PairSamples, where: str, limit_gbps: float | None) -> list[tuple[Outcome, str]]:
    few = f"{len(samples.hosts)} hosts have no peers to be compared with{where}"
    if limit_gbps is None:
        return [(Outcome.INCONCLUSIVE, f"{few}: measure {LEAST_HOSTS} or more, or give a limit")]
    return [(Outcome.PASS, f"{few}: judged by the limit alone")]


def doubts(fitted: Fitted, where: str, floor: float) -> list[tuple[Outcome, str]]:
    """What keeps a plane from being clean although no part is to blame."""
    samples, found = fitted.samples, []
    odd = int(unexplained(fitted).sum())
    allowed = max(DIPS * len(samples.a), 1)
    if odd > 2 * allowed:
        text = f"{odd} of {len(samples.a)} samples are slow and no part explains them{where}: detected, not localised"
        found.append((Outcome.INCONCLUSIVE, text))
    elif odd:
        found.append(
            (Outcome.MARGINAL, f"{odd} of {len(samples.a)} samples are slow once{where}: transient, test again")
        )
    good = fitted.decoded.explained == 0
    ends = np.concatenate([samples.a[good], samples.b[good]])
    count = np.bincount(ends, minlength=len(samples.hosts))
    needed = int(np.ceil((_SIGMAS * fitted.evidence.noise / floor) ** 2))
    weak = [samples.hosts[host] for host in np.flatnonzero((count > 0) & (count < needed))]
    hidden = [samples.hosts[host] for host in np.flatnonzero(count == 0)]
    blamed = {host for b in fitted.decoded.blamed for host in _host_of(fitted, b.component)}
    hidden = [host for host in hidden if host not in blamed]
    if weak:
        text = f"{len(weak)} hosts have too few samples to rule out {floor:.0%}{where}: {needed} each are needed"
        found.append((Outcome.INCONCLUSIVE, f"{text} at a noise of {fitted.evidence.noise:.1%} ({_some(weak)})"))
    if hidden:
        text = f"not cleared{where}, measured only over parts that are bad: {_some(hidden)}"
        found.append((Outcome.INCONCLUSIVE, text))
    return found


def _host_of(fitted: Fitted, component: int) -> list[str]:
    host = int(fitted.components.hosts[component])
    return [fitted.samples.hosts[host]] if host >= 0 else []


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_MOST
    return ", ".join(names[:_NAMES_MOST]) + (f" and {more} more" if more > 0 else "")


def _next_tests(fitted: Fitted) -> list[PairTest]:
    """Tests that would settle what is open, then single slow samples again."""
    tests = list(targeted(fitted)) if to_settle(fitted) else []
    used = {host for test in tests for host in (test.a, test.b)}
    hosts = fitted.samples.hosts
    for sample in np.flatnonzero(unexplained(fitted)).tolist()[:_NEXT_MOST]:
        a, b = hosts[fitted.samples.a[sample]], hosts[fitted.samples.b[sample]]
        if a not in used and b not in used:
            tests.append(PairTest(a, b, why="slow once, and nothing explains it"))
            used |= {a, b}
    return tests


def _classes(kind: str, fitted: Fitted) -> list[LinkClass]:
    count = np.bincount(fitted.of_class, minlength=len(fitted.classes))
    return [
        LinkClass(one.name, kind, fitted.samples.rail, found.gbps, found.noise, int(n), one.groups)
        for one, found, n in zip(fitted.classes, fitted.references, count, strict=True)
    ]


def _matrices(planes: Sequence[tuple[str, Fitted]]) -> tuple[PairMatrix, ...]:
    """Of the planes in which something is blamed, else of the first."""
    slow = [one for one in planes if one[1].decoded.blamed] or list(planes[:1])
    return tuple(matrix_of(kind, fitted) for kind, fitted in slow[:_MATRICES_MOST])


def rails_of(planes: Sequence[tuple[str, Fitted]]) -> dict[str, int]:
    """On how many rails each host was measured."""
    rails: dict[str, set[str]] = {}
    for _, fitted in planes:
        if fitted.samples.rail is not None:
            for host in fitted.samples.hosts:
                rails.setdefault(host, set()).add(fitted.samples.rail)
    return {host: len(found) for host, found in rails.items()}


def _notes(planes: Sequence[tuple[str, Fitted]], topology: Topology | None) -> tuple[str, ...]:
    notes = []
    if topology is None:
        notes.append("without an inventory leaves, uplinks and spines are not known: only hosts and pairs can be named")
    elif any(fitted.samples.leaves and not len(fitted.samples.spines) for _, fitted in planes):
        known = "which uplink and spine a test crossed is not known (adaptive routing or ECMP)"
        notes.append(f"{known}: they are not in the model, only all uplinks of a leaf together")
    return tuple(notes)
