"""How many rounds of a repeated phase were run of those that were planned: told where it is fewer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.judge.course.rows import LEAST_ROUNDS
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase, Where
from fabric.model.text import NOTE, duration_text
from fabric.model.verdict import Verdict
from fabric.probes import routes

_Spans = Mapping[str, tuple[float, float]]


def with_rounds(
    verdict: Verdict, phases: Sequence[Phase], probes: Sequence[Probe], results: Mapping[str, ProbeResult]
) -> Verdict:
    """The verdict with a note for each repeated phase of which rounds are missing; they do not change the outcome."""
    lines = [f"{NOTE}{line}" for line in (*rounds_not_run(phases, probes, results), *too_few_rounds(phases))]
    return replace(verdict, reasons=(*verdict.reasons, *lines)) if lines else verdict


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


def rounds_not_run(
    phases: Sequence[Phase], probes: Sequence[Probe], results: Mapping[str, ProbeResult]
) -> tuple[str, ...]:
    """
    One line for each phase that fills a time and had fewer rounds: "soak: 3 of 8 planned rounds were run, ...".

    *phases* are all that were planned. A round was run where one of its *probes* was begun. The time is that from the
    first begin to the last end.
    """
    planned: dict[tuple[str, Where, float], dict[int, list[str]]] = {}
    for phase in phases:
        if phase.fills is not None:
            key = (phase.written, phase.where, phase.fills.within_s)
            planned.setdefault(key, {}).setdefault(phase.round, []).append(phase.name)
    if not planned:
        return ()
    filling = {name for rounds in planned.values() for names in rounds.values() for name in names}
    spans: dict[str, tuple[float, float]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.phase not in filling or result is None or result.attempt == 0:
            continue
        began_s, ended_s = spans.get(probe.phase, (result.started_s, result.ended_s))
        spans[probe.phase] = (min(began_s, result.started_s), max(ended_s, result.ended_s))
    return tuple(line for key, rounds in planned.items() if (line := _line(*key, rounds, spans)))


def _line(written: str, where: Where, within_s: float, rounds: Mapping[int, Sequence[str]], spans: _Spans) -> str:
    ran = [names for names in rounds.values() if any(name in spans for name in names)]
    if len(ran) == len(rounds):
        return ""
    label = written + "".join(f", {name}={value}" for name, value in where)
    said = f"{label}: {len(ran)} of {len(rounds)} planned rounds were run"
    begun = [spans[name] for names in ran for name in names if name in spans]
    if not begun:
        return f"{said}, of the {duration_text(within_s)} it was given none was used"
    took_s = max(end for _, end in begun) - min(begin for begin, _ in begun)
    why = "rounds took longer than planned" if took_s >= within_s else "the run did not get to the others"
    return f"{said}, in {duration_text(took_s)} of the {duration_text(within_s)} it was given: {why}"


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
