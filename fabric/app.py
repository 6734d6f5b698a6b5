"""What a person can ask for, one function each; the command line only parses, calls and prints."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from fabric.analysis.conclude import conclude, failed_hosts
from fabric.analysis.judge import Judge
from fabric.analysis.localising import localising
from fabric.analysis.more_samples import sampling
from fabric.analysis.windows import wanted, with_samples
from fabric.changes.blast_radius import blast_problems
from fabric.changes.kind import Context
from fabric.config import baseline_notes, from_resolved, load_baseline, load_baselines, load_scenario
from fabric.engine.held_changes import Changing
from fabric.engine.observer import Observer
from fabric.engine.run import run_plan
from fabric.engine.watching import stop_watching, watching
from fabric.errors import ConfigError, Interrupted, Problem, StoreError
from fabric.model.inventory import Inventory
from fabric.model.judged_run import JudgedRun
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline, Verdict
from fabric.plan.hold_limit import hold_problems
from fabric.plan.plan import PhasePlan, Plan, plan_scenario
from fabric.ports import Executor
from fabric.report.derived import write_reports
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import verdict_document
from fabric.store.change_results import change_results
from fabric.store.events import read_events
from fabric.store.journal import FILE as JOURNAL
from fabric.store.journal import Journal
from fabric.store.left_open import refuse_while_open, say_what_is_open, settled
from fabric.store.measurements import write_measurements
from fabric.store.past_run import refuse_own_record
from fabric.store.results import from_events, replanned
from fabric.store.run_directory import RunDirectory, write_durably
from fabric.store.run_document import baselines_from, read_run, run_document
from fabric.store.samples import read_samples
from fabric.store.samples_table import write_samples

EVENTS = "events.jsonl"
"""The history of a run, in its directory."""

MakeExecutor = Callable[[Inventory, int], Executor]
"""Builds the executor of the chosen backend."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario with everything that the command line overrides, decoded and planned."""

    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    plan: Plan
    notes: tuple[str, ...]  # where the baselines' limits do not fit what is asked


def prepare(scenario_path: Path, *, inventory_path: Path | None, hosts: str | None, faults: tuple[str, ...]) -> Asked:
    """Read and check every file, then plan; raises ConfigError with all problems before anything else happens."""
    scenario, inventory = load_scenario(scenario_path, inventory_path=inventory_path, hosts=hosts, faults=faults)
    override = scenario.judge.baseline
    used = {inventory.topology.hosts[host].platform.baseline for host in scenario.hosts}
    baselines = load_baselines(sorted({override} if override else used), Path(inventory.source))
    notes = baseline_notes(scenario, inventory, baselines)
    plan = plan_scenario(scenario, inventory)
    changes = [change for phase_plan in plan.phases for change in phase_plan.changes]
    too_much = blast_problems(changes, inventory.topology, inventory.changes, scenario.allow)
    too_much += hold_problems(plan, inventory.changes.lease)
    if too_much:
        raise ConfigError(Problem(str(scenario_path), 0, text) for text in too_much)
    return Asked(scenario, inventory, baselines, plan, notes)


def run(
    asked: Asked,
    *,
    backend: str,
    make_executor: MakeExecutor,
    results: Path,
    seed: int,
    observer: Observer,
    reports: bool = True,
) -> JudgedRun:
    """
    Run the plan, then judge it from what was written down; with *reports* make report.html and the like.

    Raises MayBeLive before anything is done where an earlier run left a change behind, and after an interruption where
    this one did.
    """
    scenario, inventory = asked.scenario, asked.inventory
    refuse_while_open(results)
    document = run_document(scenario, inventory, asked.baselines, backend=backend, seed=seed)
    executor = make_executor(inventory, seed)
    try:
        directory = RunDirectory.create(results, scenario.name, document)
        executor = watching(executor, directory.path, scenario, inventory.topology)
    except (ConfigError, StoreError):
        executor.close()
        raise
    judge = Judge.as_asked(scenario.judge, asked.baselines, inventory.topology)
    changing = _changing(asked, directory)
    try:
        by_id, elapsed_s = _measure(asked, executor, directory, changing, judge=judge, observer=observer)
        stop_watching(executor)
        history = directory.path / EVENTS
        probes = [*_all_probes(asked.plan), *directory.added]
        verdict = _conclude(asked.plan, probes, by_id, scenario, inventory, judge=judge, events=history)
    except Exception:
        changing.journal.close()
        say_what_is_open(directory.path)
        raise
    except KeyboardInterrupt as exc:
        directory.events.append("run_interrupted", executor.now(), {})
        changing.journal.close()
        say_what_is_open(directory.path)
        raise Interrupted(f"interrupted; what was measured until then: fabric report {directory.path}") from exc
    finally:
        executor.close()
        changing.journal.close()
        directory.close()
    judged = _judged(asked, verdict, directory, elapsed_s=elapsed_s, backend=backend)
    _write_derived(ShownRun(judged, inventory, probes, by_id, document), reports=reports)
    return judged


def _measure(
    asked: Asked,
    executor: Executor,
    directory: RunDirectory,
    changing: Changing,
    *,
    judge: Judge,
    observer: Observer,
) -> tuple[dict[str, ProbeResult], float]:
    """Run the plan; every probe's result by id, and how long it took by the executor's clock (seconds)."""

    def gate(phase_plan: PhasePlan, phase_results: Sequence[ProbeResult]) -> dict[str, str]:
        by_id = {result.probe_id: result for result in phase_results}
        added = [probe for probe in directory.added if probe.phase == phase_plan.phase.name]
        return failed_hosts([*_probes(phase_plan), *added], by_id, judge=judge)

    started_s = executor.now()
    directory.events.append("run_started", started_s, {"run_id": directory.path.name})
    finished = run_plan(
        asked.plan,
        topology=asked.inventory.topology,
        executor=executor,
        directory=directory,
        observer=observer,
        gate=gate,
        changing=changing,
        follow_ups=(*sampling(judge), *localising(asked.scenario, asked.inventory)),
    )
    elapsed_s = executor.now() - started_s
    directory.events.append("run_ended", executor.now(), {})
    directory.flush()
    if any(phase_plan.changes for phase_plan in asked.plan.phases):  # with the very times that the changes are told in
        return from_events(read_events(directory.path / EVENTS)), elapsed_s
    return {result.probe_id: result for result in finished}, elapsed_s


def _changing(asked: Asked, directory: RunDirectory) -> Changing:
    """What this run makes changes with; the journal's file is made with the first of them."""
    run_id = directory.path.name
    return Changing(
        Context(asked.inventory.topology, asked.inventory.changes),
        Journal(directory.path / JOURNAL),
        owner=f"{asked.scenario.name}/{run_id}",
        token=f"{run_id}-{secrets.token_hex(4)}",
        allow=asked.scenario.allow,
    )


def _judged(asked: Asked, verdict: Verdict, directory: RunDirectory, *, elapsed_s: float, backend: str) -> JudgedRun:
    return JudgedRun(
        scenario=asked.scenario,
        verdict=verdict,
        path=str(directory.path),
        run_id=directory.path.name,
        elapsed_s=elapsed_s,
        backend=backend,
        judged_by=_named(asked.baselines),
        again=f"fabric report {directory.path}",
    )


def analyze(path: Path, *, baseline_path: Path | None, rewrite: bool) -> JudgedRun:
    """
    Judge a run again from its directory alone, with today's code and, if given, another baseline.

    With *rewrite* what is derived is made again; without, only what is missing.
    """
    shown = reopened(path, baseline_path=baseline_path)
    if rewrite:
        _write_derived(shown, reports=True)
    elif not (Path(shown.judged.path) / "verdict.json").exists():
        with suppress(StoreError):  # an archive may be read-only; what is shown needs no file
            _write_derived(shown, reports=True)
    return shown.judged


def reopened(path: Path, *, baseline_path: Path | None = None) -> ShownRun:
    """A run read back from its directory alone and judged again; writes nothing."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    document = read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    baselines = baselines_from(document, path / "run.json")
    if baseline_path is not None:
        other = load_baseline(baseline_path)
        refuse_own_record(f"{scenario.name}/{document['run_id']}", other)
        baselines = {name: other for name in baselines}
    plan = plan_scenario(scenario, inventory)
    history = path / EVENTS
    events = list(read_events(history))
    if events and events[0].get("run_id") != document["run_id"]:
        raise StoreError(f"{history}: the history of another run ({events[0].get('run_id')})")
    by_id = from_events(events)
    probes = [*_all_probes(plan), *replanned(events)]
    judge = Judge.as_asked(scenario.judge, baselines, inventory.topology)
    verdict = _conclude(plan, probes, by_id, scenario, inventory, judge=judge, events=history)
    complete = any(event["event"] == "run_ended" for event in events)
    if not complete:
        verdict = replace(
            verdict, reasons=("the run was interrupted: what it did not reach is not judged", *verdict.reasons)
        )
    again = f"fabric report {path}" if baseline_path is None else f"fabric analyze {path} --baseline {baseline_path}"
    judged = JudgedRun(
        scenario=scenario,
        verdict=verdict,
        path=str(path),
        run_id=document["run_id"],
        elapsed_s=events[-1]["at_s"] - events[0]["at_s"] if events else 0.0,
        backend=document["backend"],
        judged_by=_named(baselines),
        again=again,
    )
    return ShownRun(judged, inventory, probes, by_id, document, complete)


def _named(baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    return tuple(f"{baseline.name} ({baseline.source})" for baseline in {id(b): b for b in baselines.values()}.values())


def _probes(phase_plan: PhasePlan) -> list[Probe]:
    return [slot.probe for component in phase_plan.schedule.components for slot in component]


def _all_probes(plan: Plan) -> list[Probe]:
    return [probe for phase_plan in plan.phases for probe in _probes(phase_plan)]


def _conclude(
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
    verdict = conclude(
        probes,
        by_id,
        topology=inventory.topology,
        judge=judge,
        notes=notes,
        phases=scenario.phases,
        expect=scenario.expect,
        changes=settled(change_results(read_events(events), planned), events.parent / JOURNAL) if planned else (),
    )
    return with_samples(verdict, read_samples(events.parent, wanted), probes, by_id, inventory.topology, scenario.hosts)


def _write_derived(run: ShownRun, *, reports: bool) -> None:
    path = Path(run.judged.path)
    document = orjson.dumps(verdict_document(run.judged), option=orjson.OPT_INDENT_2) + b"\n"
    try:
        measured = (m for result in run.results.values() for m in result.measurements)
        write_measurements(path / "measurements.parquet", measured)
        write_samples(path)
        write_durably(path / "verdict.json", document)
        if reports:
            write_reports(run, path)
    except OSError as exc:
        raise StoreError(f"{path}: cannot write: {exc.strerror or exc}") from exc
