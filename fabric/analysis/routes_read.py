"""Tables of switches that one host could not read and another could: they were read, and nothing is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.probes import routes


def read_elsewhere(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> Mapping[str, ProbeResult]:
    """The results, of which those that another host made up for are a PASS; the reason says what happened and who."""
    asked = [probe for probe in probes if probe.kind == routes.KIND and probe.probe_id in results]
    read = {_table(probe): probe.hosts[0] for probe in asked if results[probe.probe_id].outcome is Outcome.PASS}
    made_up = {
        probe.probe_id: replace(
            results[probe.probe_id],
            outcome=Outcome.PASS,
            reason=f"{results[probe.probe_id].reason}; read on {read[_table(probe)]} instead",
            error_host=None,
            named=None,
        )
        for probe in asked
        if results[probe.probe_id].outcome is not Outcome.PASS and _table(probe) in read
    }
    return {**results, **made_up} if made_up else results


def _table(probe: Probe) -> tuple[object, ...]:
    """Which table of which plane, in which phase; LID 0: who is where."""
    return probe.phase, probe.params["plane"], probe.params["lid"]
