"""Probes of two hosts that failed, or were a little slow, while a port of theirs was bad: then it is that port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fabric.analysis.port_health import PortHealth
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict, Suspect

A_LITTLE = 0.9
"""What reached this share of its limit was slow because of a port that lost its link for some seconds; what is slower
has another cause (a choice)."""

Sick = Mapping[tuple[str, str], PortHealth]
"""Ports that are not well, by host and device."""

PortsOf = Mapping[str, Sequence[tuple[str, str]]]
"""By probe id host and device of each port that its bytes cross."""


def failed_meanwhile(
    suspects: Iterable[Suspect],
    results: Mapping[str, ProbeResult],
    verdicts: Mapping[str, ProbeVerdict],
    sick: Sick,
    ports: PortsOf,
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """
    Of suspects that are two hosts or what is between them: by their name the port that explains them, and their probes.

    While each of their probes ran, a counter of that port must have grown for which the port FAILs.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for one in suspects:
        if one.kind != "pair" or one.outcome is not Outcome.FAIL or not one.probes:
            continue
        guilty = []
        for name in one.probes:
            beside = [sick[at] for at in ports.get(name, ()) if at in sick]
            guilty.append(_guilty(results.get(name), verdicts[name], beside))
        alike = set.intersection(*guilty)
        if alike:
            found[one.component] = min(alike), one.probes
    return found


def crossed(suspects: Iterable[Suspect], probes: Sequence[Probe]) -> list[Probe]:
    """The probes of such suspects."""
    names = {name for one in suspects if one.kind == "pair" for name in one.probes}
    return [probe for probe in probes if probe.probe_id in names] if names else []


def _guilty(result: ProbeResult | None, verdict: ProbeVerdict, ports: Iterable[PortHealth]) -> set[str]:
    """Those that FAIL for what they counted while this was run, and measured nothing or was a little slow."""
    if result is None or verdict.outcome is not Outcome.FAIL:
        return set()
    if verdict.value_gbps is not None and verdict.value_gbps < A_LITTLE * (verdict.required_gbps or 0.0):
        return set()
    return {
        port.component
        for port in ports
        if any(
            port.bad.get(step.name) is Outcome.FAIL and not step.ours and step.touches(result.started_s, result.ended_s)
            for step in port.steps
        )
    }
