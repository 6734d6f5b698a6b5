"""Numbers that no limit judges: how many there are, and how they spread, in one line instead of one for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from fabric.model.probe import Probe
from fabric.model.verdict import ProbeVerdict


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Probes that were measured with one key and have no limit."""

    probes: tuple[Probe, ...]
    text: str


def unjudged(probes: Iterable[Probe], verdicts: Mapping[str, ProbeVerdict]) -> list[Unjudged]:
    """The measured ones among *probes* by phase, name and missing limit; a number alone needs no summary."""
    groups: dict[tuple[str, object, str], list[Probe]] = {}
    for probe in probes:
        verdict = verdicts[probe.probe_id]
        if verdict.value_gbps is not None and verdict.limit_gbps is None:
            missing = verdict.reason.removeprefix(f"{verdict.value_gbps:.1f} Gb/s, ")
            groups.setdefault((probe.phase, probe.params.get("name", probe.kind), missing), []).append(probe)
    found = []
    for (phase, name, missing), members in groups.items():
        # Repetitions are judged by their median, which all of them carry: one number a series.
        series = {(probe.hosts, probe.params.get("series")): verdicts[probe.probe_id].value_gbps for probe in members}
        values = [value for value in series.values() if value is not None]
        if len(values) > 1:
            found.append(Unjudged(tuple(members), f"{phase}/{name}: {_spread(values)}; {missing}"))
    return found


def _spread(values: list[float]) -> str:
    mean = fmean(values)
    cv = f", CV {pstdev(values) / mean:.3f}" if mean > 0 else ""
    return f"{len(values)} measured, mean {mean:.1f}, least {min(values):.1f}, most {max(values):.1f} Gb/s{cv}"
