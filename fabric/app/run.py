"""Run a plan: measure, judge, report; and call the ``--on-fail`` command when the fabric is bad.

That command never delays or fails a run.
"""

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from fabric.app.analyze import concluded, shown_run, write_derived
from fabric.app.prepare import Asked, refuse_unguarded
from fabric.app.scheduler import Reservation
from fabric.changes.kind import Context
from fabric.checks.found import note_identity
from fabric.checks.held import held_on, holders, refuse_held, unasked_note
from fabric.engine.deadlines import reached
from fabric.engine.held_changes import Changing
from fabric.engine.interruption import heeding_threads, listening
from fabric.engine.observer import Observer
from fabric.engine.run import run_plan
from fabric.engine.watching import stop_watching, watching
from fabric.errors import ConfigError, FabricError, Interrupted, OutOfMemory, StoreError, out_of_memory
from fabric.judge.verdict.during_run import failing_hosts, follow_ups, out_after
from fabric.judge.verdict.probes import Judge
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.plan import PhasePlan
from fabric.ports import Executor
from fabric.report.output import jsonable
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import SUSPECT
from fabric.runs.events import EVENTS, Progress, history_of, not_begun, read_events
from fabric.runs.journal import JOURNAL, Journal, raise_if_open, refuse_while_open
from fabric.runs.plain_file import is_there
from fabric.runs.run_directory import RUN, RunDirectory
from fabric.runs.run_document import PastRun, go_on_command, run_document
from fabric.runs.run_lock import holding


@dataclass(frozen=True, slots=True)
class Begun:
    """A run with all that it needs: a new one, or one that goes on from *progress*."""

    past: PastRun
    directory: RunDirectory
    executor: Executor
    progress: Progress = field(default_factory=Progress)


def run(
    asked: Asked,
    *,
    backend: str,
    executor: Executor,
    results: Path,
    seed: int,
    observer: Observer,
    reports: bool = True,
    say: Callable[[str], None] = lambda _: None,
    reservation: Reservation | None = None,
) -> ShownRun:
    """
    Run the plan, then judge it from what was written down; with *reports* make report.html and the like.

    *executor*, of the *backend*, is closed at the end. *reservation* is taken before the first probe; its owner gives
    it back. *say* is told what is worth knowing before the first probe.

    Raises ToolError if Slurm does not reserve the hosts; StoreError if another run of this scenario or on one of its
    hosts is going on; MayBeLive before anything is done if an earlier run left a change behind, by our journals or by
    the guards of the hosts, and after an interruption if this run did.
    """
    scenario, inventory = asked.scenario, asked.inventory
    with closing(executor):
        refuse_unguarded(scenario, backend)
        with holding(results, scenario.name, scenario.hosts) as lock:
            refuse_while_open(results)
            nothing_held(executor, scenario, inventory, say)
            given = asked.given.document
            document = run_document(scenario, inventory, asked.baselines, backend=backend, seed=seed, given=given)
            directory = RunDirectory.create(results, scenario.name, document)
            try:
                lock.names(directory.path)
                note_identity(executor, directory.path, scenario, inventory.topology)
                if reservation is not None:
                    reservation.take(directory.path, scenario.hosts, asked.plan)
            except FabricError:
                directory.events.abandon()
                raise
            past = PastRun(directory.path, document, scenario, inventory, asked.baselines, asked.plan)
            return measured(Begun(past, directory, executor), observer=observer, reports=reports)


def nothing_held(executor: Executor, scenario: Scenario, inventory: Inventory, say: Callable[[str], None]) -> None:
    """
    Ask the guards of every host that this run would affect; raise MayBeLive if one holds a change, of whatever run.
    """
    answers = held_on(executor, inventory, holders(inventory, scenario.hosts))
    refuse_held(answers, inventory)
    if note := unasked_note(answers):
        say(note)


def measured(begun: Begun, *, observer: Observer, reports: bool) -> ShownRun:
    """Run what is still to be run and judge all of it; close the directory and the executor. Raises as ``run``."""
    past, directory, executor = begun.past, begun.directory, begun.executor
    changing = _changing(past)
    over, died = False, list[str]()
    try:
        executor = watching(executor, past.path, past.scenario, past.inventory)
        # A thread that dies because memory is short sends this process SIGTERM, as a person would to stop it.
        with heeding_threads(partial(os.kill, os.getpid(), signal.SIGTERM)) as died:
            _measure(begun, executor, changing, observer)
        stop_watching(executor)
        history = history_of(read_events(past.path / EVENTS))
        past = replace(past, plan=reached(past.plan, not_begun(history.others)), history=history)
        verdict = concluded(past)
        directory.close()
        over = True
        with suppress(StoreError):
            executor.close()
        changing.journal.close()
        shown = shown_run(past, verdict)
        write_derived(shown, reports=reports)
    except BaseException as exc:
        with listening(lambda: None):  # another Ctrl-C must not hide that a change may be live
            _ended_early(begun, executor, changing, exc, over=over, memory=out_of_memory(exc) or "".join(died))
        raise
    return shown


def _ended_early(
    begun: Begun, executor: Executor, changing: Changing, exc: BaseException, *, over: bool, memory: str
) -> None:
    """
    Close everything, then raise the most important error: a change that may be live comes first.

    *over*: only reports were left to make. *memory*: the message if memory ran out, else empty.
    """
    directory, path = begun.directory, begun.directory.path
    stopped, go_on = isinstance(exc, KeyboardInterrupt), go_on_command(path, begun.past.document)
    try:
        if stopped and not over:
            directory.events.append("run_interrupted", executor.now(), {})
    finally:
        changing.journal.close()
        for close in (executor.close, directory.close):
            with suppress(Exception):  # an error on closing must not hide an open change
                close()
        raise_if_open(path, changing.journal.unsettled)
    then = f"everything was measured: fabric analyze {path}" if over else f"what was measured is kept: {go_on}"
    if not (is_there(path / RUN) and is_there(path / EVENTS)):
        then = "its files were deleted or moved meanwhile, and what was measured with them"
    if memory:
        raise OutOfMemory(f"{memory}; {then}") from exc
    if stopped and over:
        raise Interrupted(f"interrupted; everything was measured: fabric report {path}") from exc
    if stopped:
        kept = f"what was measured until then: fabric report {path}; to go on: {go_on}"
        raise Interrupted(f"interrupted; {kept}") from exc
    if isinstance(exc, StoreError):
        raise StoreError(f"{exc}; {then}") from exc


def _measure(begun: Begun, executor: Executor, changing: Changing, observer: Observer) -> None:
    """Run the plan and write all of it to the history."""
    past, directory, progress = begun.past, begun.directory, begun.progress
    topology = past.inventory.topology
    judge = Judge(past.baselines, past.scenario.judge, topology)

    def gate(phase_plan: PhasePlan, phase_results: Sequence[ProbeResult]) -> dict[str, str]:
        by_id = {result.probe_id: result for result in phase_results}
        return out_after(phase_plan.phase, of_phase(phase_plan), by_id, judge=judge)

    def of_phase(phase_plan: PhasePlan) -> list[Probe]:
        return [*phase_plan.planned, *(one for one in directory.added if one.phase == phase_plan.phase.name)]

    if not progress.begun:
        fields = {"run_id": directory.path.name, "probes": past.plan.probes}
        directory.events.append("run_started", executor.now(), fields)
    run_plan(
        past.plan,
        topology=topology,
        executor=executor,
        directory=directory,
        observer=observer,
        gate=gate,
        changing=changing,
        follow_ups=follow_ups(past.scenario, past.inventory, judge),
        progress=progress,
        judge_own=lambda plan, done: failing_hosts(of_phase(plan), {one.probe_id: one for one in done}, judge=judge),
    )
    directory.events.append("run_ended", executor.now(), {})
    directory.flush()


def _changing(past: PastRun) -> Changing:
    """Return what this run makes changes with; the journal's file is created with the first change."""
    run_id = past.path.name
    return Changing(
        Context(past.inventory.topology, past.inventory.changes, _own_boot_id()),
        Journal(past.path / JOURNAL),
        owner=f"{past.scenario.name}/{run_id}",
        token=f"{run_id}-{secrets.token_hex(4)}",
        allow=past.scenario.allow,
    )


def _own_boot_id() -> str:
    """Return the boot id of this machine's kernel; empty if the kernel does not tell."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


TIMEOUT_S = 60.0
"""Seconds that the command may take. At its end a run waits no longer than ``PATIENCE_S`` for it (choices)."""

PATIENCE_S = 10.0


class OnFail:
    """
    Runs *command* at the first failure while a run goes on, and again with the whole verdict at its end.

    The command gets JSON on standard input. *say* is told if it did not work. Raises ConfigError if there is no such
    command.
    """

    def __init__(self, command: str, say: Callable[[str], None]) -> None:
        self._say, self._has_reported = say, False
        self._threads: list[threading.Thread] = []
        try:
            self._argv = shlex.split(command)
        except ValueError as exc:
            raise ConfigError.at("--on-fail", f"expected a command: {exc}, got {command!r}") from exc
        if not self._argv or shutil.which(self._argv[0]) is None:
            raise ConfigError.at("--on-fail", f"expected a command that is here, got {command!r}")

    def first(self, document: Mapping[str, Any]) -> None:
        """Report a failure while the run goes on; only the first one is reported."""
        if not self._has_reported:
            self._has_reported = True
            self._tell({"event": "first_fail", **document})

    def judged(self, judge: Judge, plan: PhasePlan, results: Sequence[ProbeResult], run: Mapping[str, Any]) -> None:
        """After a phase: report the first probe that is below its limit, with the parts that explain it."""
        if self._has_reported:
            return
        by_id = {one.probe_id: one for one in results}
        verdicts, located = judge.confirmed([one for one in plan.planned if one.probe_id in by_id], by_id)
        bad = next((one for one in verdicts.values() if one.outcome is Outcome.FAIL), None)
        if bad is not None:
            part = located.suspects[0].component if located.suspects else bad.probe_id
            document = {**run, "phase": plan.phase.name, "part": part, "reason": bad.reason}
            self.first({**document, "suspects": [jsonable(one, SUSPECT) for one in located.suspects]})

    def end(self, document: Mapping[str, Any]) -> None:
        """Report the verdict, and wait a little for the commands that still run."""
        self._tell({"event": "end", **document})
        for thread in self._threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                self._say(f"--on-fail: not done after {PATIENCE_S:g} s; it is left to itself")

    def _tell(self, document: Mapping[str, Any]) -> None:
        thread = threading.Thread(target=self._run, args=(orjson.dumps(document),), daemon=True, name="on-fail")
        self._threads.append(thread)
        thread.start()

    def _run(self, data: bytes) -> None:
        try:
            with tempfile.TemporaryFile() as file:  # not a pipe: a command that does not read it must not block
                file.write(data)
                file.seek(0)
                ended = subprocess.run(  # the user's own command, without a shell
                    self._argv,
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=TIMEOUT_S,
                    check=False,
                    start_new_session=True,
                )
        except (OSError, subprocess.SubprocessError) as exc:
            self._say(f"--on-fail: {exc}")
            return
        if ended.returncode:
            self._say(f"--on-fail: {self._argv[0]} ended with {ended.returncode}")
