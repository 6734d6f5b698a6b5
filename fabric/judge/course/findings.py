"""
Findings of the course of a run, and a verdict with them: more suspects, and fewer whose bad probes these explain.

A finding is a part that became slower over the hours, dips now and then, cannot bear warmth, or failed and came back.
None of that shows in a median of the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabric.judge.normal.keys import rnics_of
from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import ComponentVerdict, ProbeVerdict, Suspect, Verdict

OPEN, CLEARED, TOO_MANY = "dips_open", "dips_cleared", "dips_too_many"
NOTES = (OPEN, CLEARED, TOO_MANY)
"""The kinds of findings that are told and accuse nobody, in the order in which they are."""

_MOST_NOTES = 3
_ACCUSED, _GOOD = (Outcome.FAIL, Outcome.ERROR), (Outcome.PASS, Outcome.MARGINAL)
_MOST_LINES = 8
MOST_PROBES = 20  # as ``model.verdict.Suspect``
_KINDS = {"gpus": "host"}
NVLINK = "nvlink"
_NEXT = {
    "drift": "clean or change the cable and the module: it gets worse by itself",
    "step": "look up what happened there at that time, then reseat the cable and measure again",
    "heat": "look after its cooling (fan, airflow, heat sink of the module), then measure again under load",
    "low": "clean or change the cable and the module; if that does not help, look at its host",
    "dips": "change the cable and the module, then measure it again as often as here",
    "came_back": "change the cable and the module: what fails and comes back fails again",
}
_AT_RNIC = ("low", "dips")
_NEXT_AT_RNIC = (
    "run loopback on {device} now: if it is slow, it is the RNIC or its PCIe link; if it is as fast as others, it is "
    "the port, the cable or the leaf port: then swap the cable first"
)
_NEXT_OF = {
    "uplinks": "read the counters of all uplinks of the leaf and of the spines behind them; do not touch the RNICs",
    "leaf": "look at the leaf switch first, and at its log of that time: all RNICs on it show the same; if nothing is "
    "there, at what was changed on all of them then",
    "pcie_switch": "run loopback on this host: if that of its RNICs to memory is slow, it is the PCIe switch (lspci "
    "-vv: width and speed of its uplink); if it is well, look at their cables",
    "numa": "run loopback and all-to-all on this host; check DIMM population and speed of this memory node "
    "(dmidecode -t memory)",
    "rack": "look up what happened in this rack at that time: power, cooling, what was changed on all of its hosts",
    "nvlink": "no cable has a part in it: check nvidia-smi nvlink -s and -e, the fabric manager, and the GPUs' clocks "
    "and Xid errors (nvidia-smi -q, dmesg); replace GPU or baseboard if errors rise",
    "gpus": "its RNICs are well one by one, so leave the cables: check the GPUs' clocks, PCIe width and speed "
    "(nvidia-smi -q) and Xid errors (dmesg); if that does not help, look at its host",
}
"""By the kind of the part."""


_Then = tuple[float, bool, Outcome | None]  # when a probe began, whether the RNIC sent, its outcome; None: a loopback


@dataclass(frozen=True, slots=True)
class CourseFinding:
    """
    A part and its course: ``drift``, ``step``, ``heat``, ``low``, ``dips`` or ``came_back``; of what many RNICs share
    ``shared`` (its probes went bad) or ``went_down`` (their ports did). Those of ``NOTES`` accuse nobody.

    *part*: its kind as in ``model.verdict.Suspect``. *text* says the course in words. *rivals* explain nearly as much.
    *hosts*: whose it is. *explains*: the hosts of every probe that it takes part in, by id. *ports*: whose counters it
    explains.
    """

    component: str
    kind: str
    text: str
    part: str = ""
    confidence: float = 0.0
    probes: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    explains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ports: tuple[str, ...] = ()


def with_over_time(verdict: Verdict, findings: Sequence[CourseFinding]) -> Verdict:
    """
    The verdict with these: each a suspect that FAILs, or more evidence against one that is suspected already.

    Who was suspected for probes that these explain is a suspect no more. Nor does one speak that came back, where each
    of its failures was shared with a host that is suspected already: that one need not come back.
    """
    verdict = _with_notes(verdict, findings)
    findings = [one for one in findings if one.kind not in NOTES and not _is_of_partners(one, verdict.suspects)]
    if not findings:
        return verdict
    verdict = _without_explained(verdict, findings)
    suspects = list(verdict.suspects)
    place = {suspect.component: number for number, suspect in enumerate(suspects)}
    components = {one.component: one for one in verdict.components}
    lines: list[str] = []
    for finding in findings:
        evidence = f"over time: {finding.text}"
        components[finding.component] = ComponentVerdict(finding.component, Outcome.FAIL, finding.text)
        if finding.part == NVLINK:  # the host was looked at, and a part of it was found
            for host in finding.hosts:
                components[host] = ComponentVerdict(host, Outcome.FAIL, f"because of {finding.component}")
        if len(lines) < _MOST_LINES:
            lines.append(f"FAIL: {finding.component}: {finding.text}")
        known = _known(finding.component, place, suspects)
        if known is not None:
            old = suspects[known]
            suspects[known] = replace(old, evidence=(*old.evidence, evidence), outcome=Outcome.FAIL)
            continue
        place[finding.component] = len(suspects)
        suspects.append(_suspect(finding, evidence))
    if len(findings) > _MOST_LINES:
        lines.append(f"and {len(findings) - _MOST_LINES} more, in verdict.json")
    return replace(
        verdict,
        outcome=Outcome.worst([verdict.outcome, Outcome.FAIL]),
        reasons=(*lines, *verdict.reasons),
        suspects=tuple(suspects),
        components=tuple(components.values()),
    )


def _with_notes(verdict: Verdict, findings: Sequence[CourseFinding]) -> Verdict:
    """With a line for each part that is not suspected, and dipped now and then or is cleared; no outcome changes."""
    accused = {host for one in verdict.suspects for host in (one.component, Part.of(one.component).host)}
    told = [one for one in findings if one.kind in NOTES and Part.of(one.component).host not in accused]
    lines = []
    for kind in NOTES:
        alike = [one for one in told if one.kind == kind]
        lines += [f"note: {one.component}: {one.text}" for one in alike[:_MOST_NOTES]]
        if len(alike) > _MOST_NOTES:
            lines.append(f"note: and {len(alike) - _MOST_NOTES} more such {'rounds' if kind == TOO_MANY else 'parts'}")
    return replace(verdict, reasons=(*verdict.reasons, *lines)) if lines else verdict


def _is_of_partners(finding: CourseFinding, suspects: Sequence[Suspect]) -> bool:
    """Whether it failed only together with hosts that are suspected, or parts of which are."""
    if finding.kind != "came_back":
        return False
    accused = {Part.of(one.component).host for one in suspects if one.outcome in _ACCUSED}
    others = accused.difference(finding.hosts)
    return all(not others.isdisjoint(finding.explains.get(name, ())) for name in finding.probes)


def _known(component: str, place: Mapping[str, int], suspects: Sequence[Suspect]) -> int | None:
    """Where it is suspected already: itself, or its port, when that is not only for what it counted."""
    port = place.get(f"{component}:port")
    if component in place or port is None:
        return place.get(component)
    return port if any(not line.startswith("counters: ") for line in suspects[port].evidence) else None


def _suspect(finding: CourseFinding, evidence: str) -> Suspect:
    return Suspect(
        component=finding.component,
        kind=_KINDS.get(finding.part, finding.part),
        outcome=Outcome.FAIL,
        confidence=finding.confidence,
        evidence=(evidence,),
        ambiguous_with=finding.rivals,
        next_step=_next(finding),
        hosts=finding.hosts,
        probes=finding.probes,
    )


def _next(finding: CourseFinding) -> str:
    part = Part.of(finding.component)
    if finding.kind in _AT_RNIC and f"{part}:{PORT}" in finding.rivals:
        return _NEXT_AT_RNIC.format(device=part.item)
    return _NEXT_OF.get(finding.part) or _NEXT.get(finding.kind, "")


def _without_explained(verdict: Verdict, findings: Sequence[CourseFinding]) -> Verdict:
    explains = {name: hosts for one in findings for name, hosts in one.explains.items()}
    named = {one.component for one in findings}
    bad = {host for one in findings if one.part != NVLINK for host in one.hosts}  # what no switch has a part in
    probes = {one.probe_id: one for one in verdict.probes}
    gone = {
        suspect.component
        for suspect in verdict.suspects
        if suspect.outcome is Outcome.FAIL
        and not _has_counted(suspect)
        and not _is_named(suspect.component, named)
        and (_is_path_of(suspect, bad) or _is_explained(suspect, probes, explains, bad))
    }
    if not gone:
        return verdict
    cleared = gone | {Part.of(name).host for name in gone} | {str(Part.of(name).whole) for name in gone}
    left = [suspect for suspect in verdict.suspects if suspect.component not in gone]
    cleared -= {part for one in left for part in (one.component, *(p.host for p in Part.of(one.component).members))}
    return replace(
        verdict,
        suspects=tuple(left),
        components=tuple(
            replace(one, outcome=Outcome.PASS, reason="")
            if one.component in cleared and one.outcome is Outcome.FAIL
            else one
            for one in verdict.components
        ),
    )


def _is_named(component: str, named: set[str]) -> bool:
    """Whether it is one of these or a part of one."""
    part = Part.of(component)
    return not {component, str(part.whole), part.host}.isdisjoint(named)


def _has_counted(suspect: Suspect) -> bool:
    """What the port of a cable counted stands for itself."""
    return any(line.startswith("counters: ") for line in suspect.evidence)


def _is_path_of(suspect: Suspect, bad: set[str]) -> bool:
    """Said to be good at both ends and slow between them: not so when an end is bad for some of the time."""
    return suspect.kind == "path" and not bad.isdisjoint(suspect.hosts)


def _is_explained(
    suspect: Suspect,
    probes: Mapping[str, ProbeVerdict],
    explains: Mapping[str, tuple[str, ...]],
    bad: set[str],
) -> bool:
    """
    Whether every bad probe of it was slow because of a part that is named.

    A suspect that is no part of one host (a leaf) stays when all hosts of its probes are named: it may be what they
    have in common. A probe that measured nothing is not explained by a part that is slow.
    """
    if not suspect.probes or any(name not in explains for name in suspect.probes):
        return False
    if any(probes[name].value_gbps is None for name in suspect.probes if name in probes):
        return False
    return len(suspect.hosts) == 1 or any(host not in bad for name in suspect.probes for host in explains[name])


def not_cleared_by_older(
    found: Sequence[Suspect],
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
) -> list[Suspect]:
    """
    The suspects of pairs, without exonerations that are older than the fault.

    A port that was blamed because a loopback of its RNIC is well stays blamed when there is such a loopback since the
    first bad probe, or when no probe was good before it (then nothing changed in between). Else it is the RNIC, which
    cannot be told from its port until a loopback is run again.
    """
    ports = [part for one in found if one.kind == "link" and (part := Part.of(one.component)).is_port]
    seen: dict[str, list[_Then]] = {str(part.whole): [] for part in ports}
    for probe in probes if seen else ():
        for sends, end in zip((True, False), rnics_of(probe), strict=False):
            if end in seen and probe.probe_id in results:
                outcome = None if probe.kind == "loopback" else verdicts[probe.probe_id].outcome
                seen[end].append((results[probe.probe_id].started_s, sends, outcome))
    left: dict[str, Suspect] = {}
    for one in found:
        end = str(Part.of(one.component).whole)
        new = _unsure(one, end) if one.kind == "link" and _has_changed(seen.get(end, ())) else one
        left[new.component] = _joined(left[new.component], new) if new.component in left else new
    return list(left.values())


def _joined(first: Suspect, second: Suspect) -> Suspect:
    """The same part twice (what it sends, and what it receives): once, with the evidence of both."""
    return replace(
        first,
        confidence=max(first.confidence, second.confidence),
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence)))[:_MOST_LINES],
        ambiguous_with=tuple(dict.fromkeys((*first.ambiguous_with, *second.ambiguous_with))),
        probes=tuple(dict.fromkeys((*first.probes, *second.probes)))[:MOST_PROBES],
    )


def _has_changed(seen: Sequence[_Then]) -> bool:
    """
    Whether probes went well before the first bad one in its direction, and the last loopback is older than that.

    What is bad in one direction only is no change: the other direction was good all the time.
    """
    bad = [(at_s, sends) for at_s, sends, outcome in seen if outcome is Outcome.FAIL]
    loopbacks = [at_s for at_s, _, outcome in seen if outcome is None]
    if not bad or not loopbacks:
        return False
    first_s, way = min(bad)
    return max(loopbacks) < first_s and any(
        at_s < first_s and sends == way and outcome in _GOOD for at_s, sends, outcome in seen
    )


def _unsure(one: Suspect, end: str) -> Suspect:
    device = Part.of(end).item
    text = (
        f"RNIC {device}, its PCIe link, its port, cable or leaf port: its loopback was measured before it became bad, "
        "and says nothing of it since"
    )
    return replace(
        one,
        component=end,
        kind="rnic",
        confidence=round(one.confidence / 2, 2),
        evidence=(text, *one.evidence[1:]),
        ambiguous_with=(f"{end}:{PORT}", *one.ambiguous_with),
        next_step=_NEXT_AT_RNIC.format(device=device),
    )
