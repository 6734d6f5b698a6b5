"""How many rounds of a repeated phase were run of those that were planned: told where it is fewer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.judge.course.rows import LEAST_ROUNDS
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase, Where
from fabric.model.text import duration_text
from fabric.probes import routes


def too_few_rounds(phases: Sequence[Phase]) -> Iterator[str]:
    """One line for each phase that fills a time in too few rounds for what shows over time alone."""
    planned: dict[tuple[str, Where], set[int]] = {}
    for phase in phases:
        if phase.fills is not None:
            planned.setdefault((phase.written, phase.where), set()).add(phase.round)
    for (written, where), rounds in planned.items():
        if len(rounds) < LEAST_ROUNDS:
            label = written + "".join(f", {name}={value}" for name, value in where)
            said = f"{len(rounds)} of the {LEAST_ROUNDS} rounds"
            yield f"{label}: {said} that it takes to see drift, dips and what follows warmth: use a longer --for"


def rounds_not_run(phases: Sequence[Phase], probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> list[str]:
    """
    One line for each phase that fills a time and had fewer rounds: "soak: 3 of 8 planned rounds were run, ...".

    *phases* are all that were planned. A round was run where one of its *probes* was begun. The time is that from the
    first begin to the last end.
    """
    planned: dict[tuple[str, Where, float], list[Phase]] = defaultdict(list)
    for phase in phases:
        if phase.fills is not None:
            planned[phase.written, phase.where, phase.fills.within_s].append(phase)
    begun: dict[str, list[ProbeResult]] = defaultdict(list)
    for probe in probes if planned else ():
        result = results.get(probe.probe_id)
        if result is not None and result.attempt > 0:
            begun[probe.phase].append(result)
    lines = []
    for (written, where, within_s), members in planned.items():
        rounds, ran = ({phase.round for phase in some} for some in (members, [m for m in members if m.name in begun]))
        if len(ran) == len(rounds):
            continue
        label = written + "".join(f", {name}={value}" for name, value in where)
        said = f"{label}: {len(ran)} of {len(rounds)} planned rounds were run"
        given = duration_text(within_s)
        done = [result for phase in members for result in begun.get(phase.name, ())]
        if not done:
            lines.append(f"{said}, of the {given} it was given none was used")
            continue
        took_s = max(one.ended_s for one in done) - min(one.started_s for one in done)
        why = "rounds took longer than planned" if took_s >= within_s else "the run did not get to the others"
        lines.append(f"{said}, in {duration_text(took_s)} of the {given} it was given: {why}")
    return lines


def read_elsewhere(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> Mapping[str, ProbeResult]:
    """The results, of which those that another host made up for are a PASS; the reason says what happened and who."""
    asked = [probe for probe in probes if probe.kind == routes.KIND and probe.probe_id in results]
    read = {_table(probe): probe.hosts[0] for probe in asked if results[probe.probe_id].outcome is Outcome.PASS}
    made_up = {}
    for probe in asked:
        result, other = results[probe.probe_id], read.get(_table(probe))
        if result.outcome is not Outcome.PASS and other is not None:
            reason = f"{result.reason}; read on {other} instead"
            made_up[probe.probe_id] = replace(result, outcome=Outcome.PASS, reason=reason, error_host=None, named=None)
    return {**results, **made_up} if made_up else results


def _table(probe: Probe) -> tuple[object, ...]:
    """Which table of which plane, in which phase; LID 0: who is where."""
    return probe.phase, probe.params["plane"], probe.params["lid"]
