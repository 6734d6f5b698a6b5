"""Run a plan: measure, judge, report."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabric.app.analyze import concluded, named, write_derived
from fabric.app.prepare import Asked
from fabric.app.report import as_judged
from fabric.changes.kind import Context
from fabric.checks.held import held_on, holders, refuse_held, unasked_note
from fabric.checks.identity import note_identity
from fabric.engine.deadlines import reached, without_results
from fabric.engine.held_changes import Changing
from fabric.engine.interruption import heeding_threads, listening
from fabric.engine.observer import Observer
from fabric.engine.run import run_plan
from fabric.engine.watching import stop_watching, watching
from fabric.errors import Interrupted, MayBeLive, OutOfMemory, StoreError, out_of_memory
from fabric.judge.verdict.further_tests import follow_ups
from fabric.judge.verdict.gate import out_after, own_fails
from fabric.judge.verdict.probes import Judge
from fabric.model.inventory import Inventory
from fabric.model.judged_run import JudgedRun
from fabric.model.probe import ProbeResult
from fabric.plan.plan import PhasePlan
from fabric.ports import Executor
from fabric.report.shown_run import ShownRun
from fabric.runs.events import FILE as EVENTS
from fabric.runs.events import from_events, read_events
from fabric.runs.journal import FILE as JOURNAL
from fabric.runs.journal import Journal
from fabric.runs.left_open import refuse_while_open, say_what_is_open
from fabric.runs.run_directory import RunDirectory
from fabric.runs.run_document import go_on_command, run_document
from fabric.runs.run_lock import holding
from fabric.runs.so_far import SoFar

MakeExecutor = Callable[[Inventory, int], Executor]
"""Builds the executor of the chosen backend."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run with all that it needs: a new one, or one that goes on from *so_far*. *document* is its run.json."""

    asked: Asked
    backend: str
    document: Mapping[str, Any]
    directory: RunDirectory
    executor: Executor
    so_far: SoFar = field(default_factory=SoFar)


def run(
    asked: Asked,
    *,
    backend: str,
    make_executor: MakeExecutor,
    results: Path,
    seed: int,
    observer: Observer,
    reports: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> JudgedRun:
    """
    Run the plan, then judge it from what was written down; with *reports* make report.html and the like.

    Raises StoreError where another run of this scenario or on one of its hosts is going on, MayBeLive before anything
    is done where an earlier run left a change behind, by our journals or by the guards of the hosts, and after an
    interruption where this one did. *say* is told what is worth knowing before the first probe.
    """
    scenario, inventory = asked.scenario, asked.inventory
    executor = make_executor(inventory, seed)  # first: what is wrong with it is found before anything is written
    try:
        with holding(results, scenario.name, scenario.hosts) as lock:
            refuse_while_open(results)
            nothing_held(executor, asked, say)
            document = run_document(scenario, inventory, asked.baselines, backend=backend, seed=seed, given=asked.given)
            directory = RunDirectory.create(results, scenario.name, document)
            try:
                lock.names(directory.path)
                note_identity(executor, directory.path, scenario, inventory.topology)
            except StoreError:
                directory.events.abandon()
                raise
            begun = Begun(asked, backend, document, directory, executor)
            return measured(begun, observer=observer, reports=reports)
    except BaseException:
        with suppress(StoreError):
            executor.close()
        raise


def nothing_held(executor: Executor, asked: Asked, say: Callable[[str], None]) -> None:
    """Ask the guards of every host that this run would feel: MayBeLive where one holds a change, of whatever run."""
    inventory = asked.inventory
    said = held_on(executor, inventory, holders(inventory, asked.scenario.hosts))
    refuse_held(said, inventory)
    if note := unasked_note(said):
        say(note)


def stop_this_run() -> None:
    """Ask this process to stop, as somebody would from outside: a thread of it died for want of memory."""
    os.kill(os.getpid(), signal.SIGTERM)


def measured(begun: Begun, *, observer: Observer, reports: bool) -> JudgedRun:
    """Run what is still to be run, judge all of it; closes the directory and the executor. Raises as ``run``."""
    asked, directory, executor = begun.asked, begun.directory, begun.executor
    scenario, inventory = asked.scenario, asked.inventory
    judge = Judge.as_asked(scenario.judge, asked.baselines, inventory.topology)
    changing = _changing(asked, directory)
    over, died = False, list[str]()
    try:
        executor = watching(executor, directory.path, scenario, inventory.topology)
        with heeding_threads(stop_this_run) as died:
            by_id, elapsed_s = _measure(begun, executor, changing, judge=judge, observer=observer)
        stop_watching(executor)
        history = directory.path / EVENTS
        plan = reached(asked.plan, without_results(asked.plan, by_id))
        probes = [*plan.planned, *directory.added]
        verdict = concluded(plan, probes, by_id, scenario, inventory, judge=judge, events=history)
        directory.close()
        over = True
        with suppress(StoreError):
            executor.close()
        changing.journal.close()
        judged_by = named(asked.baselines)
        judged = as_judged(directory.path, begun.document, scenario, verdict, elapsed_s=elapsed_s, judged_by=judged_by)
        write_derived(ShownRun(judged, inventory, probes, by_id, begun.document), reports=reports)
    except BaseException as exc:
        with listening(lambda: None):  # another Ctrl-C must not hide that a change may be live
            _ended_early(begun, executor, changing, exc, over=over, memory=out_of_memory(exc) or "".join(died))
        raise
    return judged


def _ended_early(
    begun: Begun, executor: Executor, changing: Changing, exc: BaseException, *, over: bool, memory: str
) -> None:
    """
    Close all, then say what counts most: a change that may be live.

    *over*: only reports were left to make. *memory*: what to say of it, where there was none left.
    """
    directory, path = begun.directory, begun.directory.path
    stopped, go_on = isinstance(exc, KeyboardInterrupt), go_on_command(path, begun.document)
    try:
        if stopped and not over:
            directory.events.append("run_interrupted", executor.now(), {})
    finally:
        changing.journal.close()
        for close in (executor.close, directory.close):
            with suppress(Exception):  # what cannot even be closed must not keep an open change from being told
                close()
        _say_what_is_open(path)
    then = f"everything was measured: fabric analyze {path}" if over else f"what was measured is kept: {go_on}"
    if memory:
        raise OutOfMemory(f"{memory}; {then}") from exc
    if stopped and over:
        raise Interrupted(f"interrupted; everything was measured: fabric report {path}") from exc
    if stopped:
        kept = f"what was measured until then: fabric report {path}; to go on: {go_on}"
        raise Interrupted(f"interrupted; {kept}") from exc
    if isinstance(exc, StoreError):
        raise StoreError(f"{exc}; {then}") from exc


def _say_what_is_open(path: Path) -> None:
    try:
        say_what_is_open(path)
    except MemoryError as exc:
        raise MayBeLive(f"there is no memory left to read {path / JOURNAL}: fabric restore {path}") from exc


def _measure(
    begun: Begun, executor: Executor, changing: Changing, *, judge: Judge, observer: Observer
) -> tuple[dict[str, ProbeResult], float]:
    """Run the plan; every probe's result by id, and how long it took by the executor's clock (seconds)."""
    asked, directory, so_far = begun.asked, begun.directory, begun.so_far

    def gate(phase_plan: PhasePlan, phase_results: Sequence[ProbeResult]) -> dict[str, str]:
        by_id = {result.probe_id: result for result in phase_results}
        added = [probe for probe in directory.added if probe.phase == phase_plan.phase.name]
        return out_after(phase_plan.phase, [*phase_plan.planned, *added], by_id, judge=judge)

    started_s = executor.now()
    if not so_far.begun:
        directory.events.append("run_started", started_s, {"run_id": directory.path.name, "probes": asked.plan.probes})
    finished = run_plan(
        asked.plan,
        topology=asked.inventory.topology,
        executor=executor,
        directory=directory,
        observer=observer,
        gate=gate,
        changing=changing,
        follow_ups=follow_ups(asked.scenario, asked.inventory, judge),
        so_far=so_far,
        judge_own=lambda plan, done: own_fails(plan.planned, {one.probe_id: one for one in done}, judge=judge),
    )
    elapsed_s = executor.now() - (so_far.began_s if so_far.begun else started_s)
    directory.events.append("run_ended", executor.now(), {})
    directory.flush()
    altered = any(phase_plan.changes for phase_plan in asked.plan.phases)
    if altered or so_far.begun:  # with the very times that the changes are told in
        return from_events(read_events(directory.path / EVENTS)), elapsed_s
    return {result.probe_id: result for result in finished}, elapsed_s


def _changing(asked: Asked, directory: RunDirectory) -> Changing:
    """What this run makes changes with; the journal's file is made with the first of them."""
    run_id = directory.path.name
    return Changing(
        Context(asked.inventory.topology, asked.inventory.changes, _own_boot_id()),
        Journal(directory.path / JOURNAL),
        owner=f"{asked.scenario.name}/{run_id}",
        token=f"{run_id}-{secrets.token_hex(4)}",
        allow=asked.scenario.allow,
    )


def _own_boot_id() -> str:
    """Of the kernel that runs this; empty where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
