"""How many rounds of a phase that fills a time were run, where fewer were than the plan had: no verdict says it."""

from __future__ import annotations

from fabric.model.scenario import Where
from fabric.model.units import duration_text
from fabric.report.shown_run import ShownRun


def rounds_not_run(run: ShownRun) -> tuple[str, ...]:
    """
    One line for each repeated phase of which planned rounds were not run: "soak: 3 of 8 planned rounds were run".

    A round was run where at least one of its probes was begun. The time is that from the first begin to the last end.
    """
    planned: dict[tuple[str, Where, float], dict[int, list[str]]] = {}
    for phase in run.judged.scenario.phases:
        if phase.fills is not None:
            key = (phase.written, phase.where, phase.fills.within_s)
            planned.setdefault(key, {}).setdefault(phase.round, []).append(phase.name)
    filling = {name for rounds in planned.values() for names in rounds.values() for name in names}
    if not filling:
        return ()
    spans: dict[str, tuple[float, float]] = {}
    for probe in run.probes:
        result = run.results.get(probe.probe_id)
        if probe.phase not in filling or result is None or result.attempt == 0:
            continue
        began_s, ended_s = spans.get(probe.phase, (result.started_s, result.ended_s))
        spans[probe.phase] = (min(began_s, result.started_s), max(ended_s, result.ended_s))
    return tuple(line for key, rounds in planned.items() if (line := _line(*key, rounds, spans)))


def _line(
    written: str, where: Where, within_s: float, rounds: dict[int, list[str]], spans: dict[str, tuple[float, float]]
) -> str:
    ran = [names for names in rounds.values() if any(name in spans for name in names)]
    if len(ran) == len(rounds):
        return ""
    label = written + "".join(f", {name}={value}" for name, value in where)
    said = f"{label}: {len(ran)} of {len(rounds)} planned rounds were run"
    begun = [spans[name] for names in ran for name in names if name in spans]
    if not begun:
        return f"{said}, of the {duration_text(within_s)} it was given none was used"
    took_s = max(end for _, end in begun) - min(begin for begin, _ in begun)
    why = "its time was over" if took_s >= within_s else "the run did not get to the others"
    return f"{said}, in {duration_text(took_s)} of the {duration_text(within_s)} it was given: {why}"
