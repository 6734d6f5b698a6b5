"""How many rounds of a repeated phase were run of those that were planned: told where it is fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.verdict import Verdict


def with_rounds(
    verdict: Verdict, phases: Sequence[Phase], probes: Sequence[Probe], results: Mapping[str, ProbeResult]
) -> Verdict:
    """
    The verdict with a line for each repeated phase of which rounds are missing; they do not change the outcome.

    *phases* are all that were planned. A round was run where one of its *probes* has a result.
    """
    begun = {probe.phase for probe in probes if probe.probe_id in results}
    planned: dict[str, set[int]] = {}
    ran: dict[str, set[int]] = {}
    for phase in phases:
        if phase.fills is not None:
            planned.setdefault(phase.written, set()).add(phase.round)
            if phase.name in begun:
                ran.setdefault(phase.written, set()).add(phase.round)
    lines = [
        f"note: {name}: {len(ran.get(name, ()))} of {len(rounds)} planned rounds were run; "
        "they took longer than planned, or the run ended before"
        for name, rounds in planned.items()
        if len(ran.get(name, ())) < len(rounds)
    ]
    return replace(verdict, reasons=(*verdict.reasons, *lines)) if lines else verdict
