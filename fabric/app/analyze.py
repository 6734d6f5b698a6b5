"""Judges a run from what is written down, and makes what is derived from that: verdict.json, tables, reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fabric.app.report import as_judged
from fabric.config import load_baseline
from fabric.engine.deadlines import reached
from fabric.errors import StoreError
from fabric.judge.course.over_time import over_time, with_over_time
from fabric.judge.ports.windows import wanted_for, with_samples
from fabric.judge.repair import before_repair, measured_again, samples_since, with_repairs
from fabric.judge.training import with_training
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.judge.verdict.rounds import read_elsewhere, with_rounds
from fabric.model.inventory import Inventory
from fabric.model.judged_run import JudgedRun
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline, Verdict
from fabric.plan.plan import Plan
from fabric.report.derived import write_reports
from fabric.report.shown_run import ShownRun
from fabric.report.told_verdict import FILE as VERDICT
from fabric.report.told_verdict import going_on, history_bytes, is_told
from fabric.report.verdict_json import verdict_bytes
from fabric.runs.change_results import change_results
from fabric.runs.durable import write_durably
from fabric.runs.events import FILE as EVENTS
from fabric.runs.events import read_events, replanned
from fabric.runs.journal import FILE as JOURNAL
from fabric.runs.left_open import settled
from fabric.runs.past_run import read_past_run, refuse_own_record
from fabric.runs.run_lock import running
from fabric.runs.samples import read_samples
from fabric.runs.so_far import not_begun, read_readmissions
from fabric.runs.tables import write_measurements, write_samples


def analyze(path: Path, *, baseline_path: Path | None, rewrite: bool) -> JudgedRun:
    """
    Judge a run again from its directory alone, with today's code and, if given, another baseline.

    With *rewrite* what is derived is made again; without, only where there is no verdict.json, or one older than what
    was measured. While the run goes on that would be out of date with its next probe, and nothing is written.
    """
    shown = reopened(path, baseline_path=baseline_path)
    if rewrite:
        write_derived(shown, reports=True)
    elif not shown.judged.goes_on and not is_told(Path(shown.judged.path)):
        with suppress(StoreError):  # an archive may be read-only; what is shown needs no file
            write_derived(shown, reports=True)
    return shown.judged


def reopened(path: Path, *, baseline_path: Path | None = None) -> ShownRun:
    """A run read back from its directory alone and judged again; writes nothing."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    at_work, read_bytes = running(path) is not None, history_bytes(path)  # before it is read: it may grow meanwhile
    past = read_past_run(path)
    document, scenario, inventory, baselines = past.document, past.scenario, past.inventory, past.baselines
    if baseline_path is not None:
        other = load_baseline(baseline_path)
        refuse_own_record(past.name, other)
        baselines = {name: other for name in baselines}
    history = past.history
    first, by_id = history.first, history.results
    plan = reached(past.plan, not_begun(history.others))
    probes = [*plan.planned, *replanned(history.others)]
    judge = Judge.as_asked(scenario.judge, baselines, inventory.topology)
    verdict = concluded(plan, probes, by_id, scenario, inventory, judge=judge, events=path / EVENTS)
    complete = past.ended
    goes_on = at_work and not complete
    if goes_on:
        verdict = going_on(verdict)
    elif not complete:
        verdict = replace(
            verdict, reasons=("the run was interrupted: what it did not reach is not judged", *verdict.reasons)
        )
    judged = as_judged(
        path,
        document,
        scenario,
        verdict,
        elapsed_s=0.0 if first is None else history.at_s - first["at_s"],
        judged_by=named(baselines),
        complete=complete,
    )
    again = judged.again if baseline_path is None else f"fabric analyze {path} --baseline {baseline_path}"
    judged = replace(judged, again=again, goes_on=goes_on, history_bytes=read_bytes)
    return ShownRun(judged, inventory, probes, by_id, document, complete)


def named(baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    """Each baseline by its name and where it comes from."""
    return tuple(f"{baseline.name} ({baseline.source})" for baseline in {id(b): b for b in baselines.values()}.values())


def concluded(
    plan: Plan,
    probes: Sequence[Probe],
    by_id: Mapping[str, ProbeResult],
    scenario: Scenario,
    inventory: Inventory,
    *,
    judge: Judge,
    events: Path,
) -> Verdict:
    """Judge what was measured, and what was altered meanwhile as the run's history tells it."""
    notes = [note for phase_plan in plan.phases for note in phase_plan.notes]
    planned = [change for phase_plan in plan.phases for change in phase_plan.changes]
    found = (
        settled(change_results(read_events(events, "change"), planned), events.parent / JOURNAL, planned)
        if planned
        else ()
    )
    by_id = read_elsewhere(probes, by_id)
    back = read_readmissions(events)
    old = before_repair(probes, by_id, back.at_s)
    kept = [probe for probe in probes if probe.probe_id not in old] if old else probes
    verdict = conclude(
        kept,
        by_id,
        topology=inventory.topology,
        judge=judge,
        notes=notes,
        phases=scenario.phases,
        expect=scenario.expect,
        changes=found,
    )
    growth = scenario.judge.zero_growth
    samples = samples_since(read_samples(events.parent, wanted_for(growth)), measured_again(probes, by_id, back.at_s))
    verdict = with_samples(verdict, samples, kept, by_id, inventory.topology, scenario.hosts, growth)
    verdict = with_over_time(verdict, over_time(kept, by_id, scenario.phases, inventory.topology, samples))
    verdict = with_training(
        verdict, samples, kept, by_id, phases=scenario.phases, topology=inventory.topology, hosts=scenario.hosts
    )
    verdict = with_rounds(verdict, scenario.phases, probes, by_id)
    return with_repairs(verdict, probes, old, back.times, back.began_s)


def write_derived(run: ShownRun, *, reports: bool) -> None:
    """Write everything that can be deleted and made again; raises StoreError when the disk says no."""
    path = Path(run.judged.path)
    try:
        measured = (m for result in run.results.values() for m in result.measurements)
        write_measurements(path, measured)
        write_samples(path)
        write_durably(path / VERDICT, verdict_bytes(run.judged))
        if reports:
            write_reports(run, path)
    except OSError as exc:
        raise StoreError(f"{path}: cannot write: {exc.strerror or exc}") from exc
