"""
Hosts that were good in earlier rounds of a phase, and whose own probes FAIL or have errors from some round on.

Over a whole run most of their probes are good, so that ``localise.py`` names nobody. What a probe inside one host says
accuses that host alone, and is looked at from the first bad one on; then what hosts did together
(``partners.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fabric.judge.course.partners import since_with_partners
from fabric.judge.locate.cover import ENOUGH, evidence_lines
from fabric.judge.locate.localise import suspects
from fabric.judge.locate.merged import names
from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

_BAD = (Outcome.FAIL, Outcome.ERROR)
_GOOD = (Outcome.PASS, Outcome.MARGINAL)
_MOST_PROBES = 20  # as ``model.verdict.Suspect``
_INSIDE = "all_to_all"
_GONE = (
    "it was measured well before, and the tool says why not now: check nvidia-smi -L, dmesg for Xid, power and SSH of "
    "the host, then run it again"
)
_Judged = tuple[Probe, ProbeVerdict]


def since_some_round(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    *,
    topology: Topology,
    named: Sequence[Suspect],
) -> list[Suspect]:
    """
    Suspects for the bad probes that *named* does not explain, of phases that ran more than once.

    Of what was run inside one host a number below its limit counts when nearly all since then are (``cover.ENOUGH``):
    now and then is for ``over_time.py``. What a tool itself called bad, or could not measure, stands, however rare.
    """
    found: list[Suspect] = []
    for host, own in _own(probes, verdicts, results, phases).items():
        for outcome in _BAD:
            first = next((place for place, (_, verdict) in enumerate(own) if verdict.outcome is outcome), None)
            if first is None or _is_known(host, own, outcome, (*named, *found)):
                continue
            since = [pair for pair in own[first:] if pair[1].outcome in (outcome, *_GOOD)]
            found += _suspects(host, since, outcome, topology, was_good=any(v.outcome in _GOOD for _, v in own[:first]))
    known = (*named, *found)
    return found + since_with_partners(probes, verdicts, results, phases, topology=topology, named=known)


def _is_known(host: str, own: Sequence[_Judged], outcome: Outcome, known: Sequence[Suspect]) -> bool:
    """Whether the host itself is suspected, or a part of it for one of these probes."""
    bad = {probe.probe_id for probe, verdict in own if verdict.outcome is outcome}
    alike = [one for one in known if host in one.hosts and one.outcome.rank >= outcome.rank]
    return any(host in names(one) or not bad.isdisjoint(one.probes) for one in alike)


def _own(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
) -> dict[str, list[_Judged]]:
    """What was run inside each host in repeated phases that altered nothing, in order of time."""
    rounds = Counter((phase.written, phase.where) for phase in phases)
    repeated = {p.name for p in phases if rounds[p.written, p.where] > 1 and not p.changes}
    own: dict[str, list[_Judged]] = {}
    for probe in probes:
        if probe.phase not in repeated or len(probe.hosts) != 1 or probe.probe_id not in results:
            continue
        if verdicts[probe.probe_id].ran:
            own.setdefault(probe.hosts[0], []).append((probe, verdicts[probe.probe_id]))
    for judged in own.values():
        judged.sort(key=lambda pair: results[pair[0].probe_id].started_s)
    return {host: judged for host, judged in own.items() if any(verdict.outcome in _BAD for _, verdict in judged)}


def _suspects(
    host: str, since: Sequence[_Judged], outcome: Outcome, topology: Topology, *, was_good: bool
) -> list[Suspect]:
    inside = [pair for pair in since if pair[0].kind == _INSIDE]
    rest = [pair for pair in since if pair[0].kind != _INSIDE]
    found = suspects([probe for probe, _ in rest], {p.probe_id: v for p, v in rest}, topology=topology, outcome=outcome)
    bad = [pair for pair in inside if pair[1].outcome is outcome]
    said = any(verdict.value_gbps is None for _, verdict in bad)
    if bad and (said or len(bad) >= ENOUGH * len(inside)):
        found.append(_among_gpus(host, bad, len(inside), outcome, was_good=was_good))
    return found


def _among_gpus(host: str, bad: Sequence[_Judged], telling: int, outcome: Outcome, *, was_good: bool) -> Suspect:
    """Bad all-to-alls: of one that is slow NVLink or a GPU, of one that a tool ended the host: it may be any part."""
    slow = outcome is Outcome.FAIL and all(verdict.value_gbps is not None for _, verdict in bad)
    if slow:
        component, kind, text = f"{host}/nvlink", "nvlink", "NVLink of the host, or one of its GPUs"
    else:
        component, kind, text = host, "host", "a GPU of the host, or the host itself: its own all-to-all ends so"
    advice = next_step("nvlink" if slow else "gpu", outcome)
    if outcome is Outcome.ERROR:
        advice = _GONE if was_good else next_step(kind, outcome)
    said = "failed" if outcome is Outcome.FAIL else "had errors"
    before = "; before that it was good" if was_good else ""
    return Suspect(
        component=component,
        kind=kind,
        outcome=outcome,
        confidence=round((len(bad) + 1) / (telling + 2), 2),
        evidence=(
            text,
            f"{len(bad)} of {telling} probes that could show it {said}, from {bad[0][0].phase} on{before}",
            *evidence_lines([(probe.kind, verdict) for probe, verdict in bad]),
        ),
        next_step=advice,
        hosts=(host,),
        probes=tuple(probe.probe_id for probe, _ in bad[:_MOST_PROBES]),
    )
