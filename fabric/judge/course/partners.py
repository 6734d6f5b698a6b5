"""Suspects of pairs that a loopback cleared of, or accused, before they became bad: it says nothing of them since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict, Suspect

_MOST_LINES, _PROBES_MOST = 8, 20  # as for suspects of pairs, and ``model.verdict.Suspect``
_GOOD = (Outcome.PASS, Outcome.MARGINAL)
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
