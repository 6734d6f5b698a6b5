"""
Hosts that were good in earlier rounds, and whose probes with other hosts are bad from some round on.

A bad probe between hosts accuses all of them, so each host is looked at in the time in which it was bad: who was bad
with nearly every partner then is a suspect, and the partners, who did well with others, are none. Two bad rounds are
enough, and the last round alone, so that short runs name somebody, too; eight rounds and more say it better
(``over_time.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from fabric.judge.course.verdict import NEXT_IN_HOST
from fabric.judge.locate.cover import ENOUGH, evidence_lines
from fabric.judge.locate.merged import names
from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect

_MOST_LINES, _PROBES_MOST = 8, 20  # as for suspects of pairs, and ``model.verdict.Suspect``
_Then = tuple[float, bool, Outcome]  # when a probe began, whether the RNIC sent, what became of it
NEXT_AT_RNIC = (
    "run loopback on {device} now: if it is slow, it is the RNIC or its PCIe link; if it is as fast as others, it is "
    "the port, the cable or the leaf port: then swap the cable first"
)
"""What to do where an RNIC cannot be told from its port; *device* is the RNIC's."""


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
    ends = {str(part.whole) for one in found if one.kind == "link" and (part := Part.of(one.component)).is_port}
    if not ends:
        return list(found)
    loopbacks: dict[str, float] = {}
    through: dict[str, list[_Then]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if result is None or "rnic" not in probe.params:
            continue
        sender, receiver = _both_ends(probe)
        for end in ends.intersection((sender, receiver)):
            if probe.kind == "loopback":
                loopbacks[end] = max(loopbacks.get(end, 0.0), result.started_s)
            else:
                then = (result.started_s, end == sender, verdicts[probe.probe_id].outcome)
                through.setdefault(end, []).append(then)
    stale = {end for end in ends if end in loopbacks and _changed(through.get(end, ()), loopbacks[end])}
    left: dict[str, Suspect] = {}
    for one in found:
        end = str(Part.of(one.component).whole)
        new = _unsure(one, end) if one.kind == "link" and end in stale else one
        left[new.component] = _joined(left[new.component], new) if new.component in left else new
    return list(left.values())


def _both_ends(probe: Probe) -> tuple[str, str]:
    own = str(probe.params["rnic"])
    return f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}"


def _changed(through: Sequence[_Then], loopback_s: float) -> bool:
    """
    Whether probes went well before the first bad one in its direction, and the last loopback is older than that.

    What is bad in one direction only is no change: the other direction was good all the time.
    """
    first = min((one for one in through if one[2] is Outcome.FAIL), key=lambda one: one[0], default=None)
    if first is None:
        return False
    first_s, sends, _ = first
    good = [at_s for at_s, way, outcome in through if way == sends and outcome in _GOOD]
    return loopback_s < first_s and any(at_s < first_s for at_s in good)


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
        next_step=NEXT_AT_RNIC.format(device=device),
    )


def _joined(first: Suspect, second: Suspect) -> Suspect:
    """The same part twice (what it sends, and what it receives): once, with the evidence of both."""
    return replace(
        first,
        confidence=max(first.confidence, second.confidence),
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence)))[:_MOST_LINES],
        ambiguous_with=tuple(dict.fromkeys((*first.ambiguous_with, *second.ambiguous_with))),
        probes=tuple(dict.fromkeys((*first.probes, *second.probes)))[:_PROBES_MOST],
    )


LEAST_ROUNDS = 2
"""Bad in one round may be chance (a choice), unless it is the last one: nothing was measured after it."""

LEAST_BAD = 2
"""One bad probe accuses both of its ends alike."""

_BAD = (Outcome.FAIL, Outcome.ERROR)
_GOOD = (Outcome.PASS, Outcome.MARGINAL)
_MOST_TRIED = 64
"""Hosts that are looked at, those with most bad probes first (a bound on the cost)."""

_MOST_PROBES = 20  # as ``model.verdict.Suspect``


@dataclass(frozen=True, slots=True)
class _Seen:
    probe: Probe
    verdict: ProbeVerdict
    began_s: float

    @property
    def bad(self) -> bool:
        return self.verdict.outcome in _BAD


def since_with_partners(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
    *,
    topology: Topology,
    named: Sequence[Suspect],
) -> list[Suspect]:
    """
    Suspects for bad probes between hosts that *named* does not explain, of phases that ran more than once.

    The host with most of them is looked at first. One of its RNICs is named, or the host, when nearly all that went
    through it is bad (``cover.ENOUGH``) from its first bad probe to its last one. Where all of these were with one and
    the same partner, the two cannot be told apart.
    """
    seen = _between_hosts(probes, verdicts, results, phases)
    guilty = {host for one in named for host in _accused(one)}
    known = {probe_id for one in named for probe_id in one.probes}
    left = [one for one in seen if guilty.isdisjoint(one.probe.hosts) and one.probe.probe_id not in known and one.bad]
    by_host: dict[str, list[_Seen]] = {}
    for one in seen if left else ():
        for host in one.probe.hosts:
            by_host.setdefault(host, []).append(one)
    found: list[Suspect] = []
    passed: set[str] = set()
    for _ in range(_MOST_TRIED):
        counts = Counter(host for one in left for host in one.probe.hosts if host not in passed)
        if not counts:
            break
        host = min(counts, key=lambda name: (-counts[name], name))
        passed.add(host)
        suspect = _of_host(host, by_host[host], {one.probe.probe_id for one in left}, topology)
        if suspect is not None:
            found.append(suspect)
            left = [one for one in left if host not in one.probe.hosts]
    return found


def _between_hosts(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    phases: Sequence[Phase],
) -> list[_Seen]:
    """What was run between hosts in repeated phases that altered nothing, and told something, in order of time."""
    rounds = Counter((phase.written, phase.where) for phase in phases)
    repeated = {p.name for p in phases if rounds[p.written, p.where] > 1 and not p.changes}
    seen = [
        _Seen(probe, verdicts[probe.probe_id], results[probe.probe_id].started_s)
        for probe in probes
        if probe.phase in repeated and len(probe.hosts) > 1 and probe.probe_id in results
    ]
    telling = [one for one in seen if one.verdict.ran and one.verdict.outcome in (*_BAD, *_GOOD)]
    return sorted(telling, key=lambda one: (one.began_s, one.probe.probe_id))


def _accused(suspect: Suspect) -> AbstractSet[str]:
    """The hosts that it is a part of; of what lies between hosts all of them."""
    own = {Part.of(name).host for name in names(suspect)}
    return own if own.issubset(suspect.hosts) else {*own, *suspect.hosts}


def _of_host(host: str, own: Sequence[_Seen], left: AbstractSet[str], topology: Topology) -> Suspect | None:
    """What is suspected for the bad probes of a host, of which these are *left* to explain; None when nothing is."""
    devices = topology.hosts[host].platform.rnic_by_device
    single = {device: [one for one in own if f"{host}/{device}" in _ends(one.probe)] for device in devices}
    bad = [device for device, through in single.items() if _is_bad(through, left)]
    together = [one for one in own if not _ends(one.probe)]
    if not _is_bad(together, left):
        together = []
    through = [one for device in bad for one in single[device]]
    if not together and not through:
        return None
    judged = sorted([*together, *through], key=lambda one: one.began_s)
    partners = {other for one in judged for other in one.probe.hosts if other != host}
    if len(partners) == 1:
        return _pair(host, partners.pop(), judged)
    if len(bad) == 1:
        return _rnic(host, bad[0], judged)
    measured = [device for device, some in single.items() if _then(together, some)]
    if together and not bad and measured:
        text = f"{host} in collectives: its RNICs are well one by one meanwhile"
        return _suspect(host, "host", text, judged, NEXT_IN_HOST["gpus"])
    text = f"{host}: {', '.join(bad) or 'its RNICs'}, their cables and leaf ports, or all of it"
    return _suspect(host, "host", text, judged, "")


def _ends(probe: Probe) -> tuple[str, ...]:
    """The RNICs (``gpu001/mlx5_0``) that a probe names; none: it goes through all of its hosts'."""
    if "rnic" not in probe.params:
        return ()
    own = str(probe.params["rnic"])
    return f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}"


def _is_bad(through: Sequence[_Seen], left: AbstractSet[str]) -> bool:
    """Whether nearly all of it is bad from the first bad one to the last, in several rounds or to the end."""
    bad = [one for one in through if one.bad]
    if len(bad) < LEAST_BAD or left.isdisjoint(one.probe.probe_id for one in bad):
        return False
    if len({one.probe.phase for one in bad}) < LEAST_ROUNDS and through[-1] is not bad[-1]:
        return False
    return len(bad) >= ENOUGH * len(_then(bad, through))


def _then(bad: Sequence[_Seen], through: Sequence[_Seen]) -> list[_Seen]:
    """What ran from the first of these that is bad to the last."""
    times = [one.began_s for one in bad if one.bad]
    return [one for one in through if times[0] <= one.began_s <= times[-1]] if times else []


def _rnic(host: str, device: str, judged: Sequence[_Seen]) -> Suspect:
    """An RNIC with all that is in line with it: pair tests alone do not tell the RNIC from its port."""
    text = f"RNIC {device}, its PCIe link, its port, cable or leaf port"
    rivals = (f"{host}/{device}:port",)
    return _suspect(f"{host}/{device}", "rnic", text, judged, NEXT_AT_RNIC.format(device=device), rivals)


def _pair(host: str, other: str, judged: Sequence[_Seen]) -> Suspect:
    """Two hosts that were measured only with each other."""
    text = f"{host} or {other}, or what is between them"
    return _suspect("+".join(sorted((host, other))), "pair", text, judged, "")


def _suspect(
    component: str, kind: str, text: str, judged: Sequence[_Seen], advice: str, rivals: tuple[str, ...] = ()
) -> Suspect:
    bad = [one for one in judged if one.bad]
    outcome = Outcome.worst(one.verdict.outcome for one in bad)
    telling = len(_then(bad, judged))
    worst = sorted(bad, key=lambda one: (one.verdict.value_gbps or 0.0) / (one.verdict.required_gbps or 1.0))
    return Suspect(
        component=component,
        kind=kind,
        outcome=outcome,
        confidence=round((len(bad) + 1) / (telling + 2) / (1 + len(rivals)), 2),
        evidence=(text, _since(judged, bad), *evidence_lines([(one.probe.kind, one.verdict) for one in bad])),
        ambiguous_with=rivals,
        next_step=advice or next_step(kind, outcome),
        hosts=tuple(sorted({one.host for one in Part.of(component).members})),
        probes=tuple(one.probe.probe_id for one in worst[:_MOST_PROBES]),
    )


def _since(judged: Sequence[_Seen], bad: Sequence[_Seen]) -> str:
    """How many of each kind were bad, from when on, and how it was before and after."""
    first, last = bad[0], bad[-1]
    told = Counter(one.probe.kind for one in _then(bad, judged))
    kinds = Counter(one.probe.kind for one in bad)
    counted = ", ".join(f"{number} of {told[kind]} {kind}" for kind, number in kinds.items())
    said = f"{counted} with it were bad, from {first.probe.phase} on ({first.began_s / 3600.0:.1f} h)"
    if any(not one.bad and one.began_s < first.began_s for one in judged):
        said += "; before that it was good"
    if any(not one.bad and one.began_s > last.began_s for one in judged):
        said += f"; after {last.probe.phase} it was well again"
    return said
