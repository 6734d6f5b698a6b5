"""Go on with a run that was killed, interrupted, or stopped by a full disk: finished probes stay."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fabric.app.prepare import Given, prepare
from fabric.app.repair import filled
from fabric.app.restore import in_order, restore
from fabric.app.run import Begun, measured, nothing_held
from fabric.app.scheduler import Reservation
from fabric.app.status import last_states
from fabric.checks.found import identify
from fabric.config.resolved import from_resolved, resolved_document
from fabric.engine.interruption import STOP
from fabric.engine.observer import Observer
from fabric.errors import ConfigError, FabricError, Interrupted, MayBeLive, Problem, StoreError
from fabric.judge.repair.identity import changes
from fabric.model.differing import in_words, unlike
from fabric.model.repair import Because
from fabric.model.text import counted
from fabric.plan import Plan, plan_scenario
from fabric.ports import Executor, MakeExecutor
from fabric.probes.again import because_of
from fabric.report.output import jsonable
from fabric.report.shown_run import ShownRun
from fabric.runs.events import EVENTS, Progress, all_events, progress_of, read_events
from fabric.runs.journal import CLOSED, FINAL, refuse_while_open
from fabric.runs.manifest import OUTDATED_BY_MEASURING, leftovers, tickets_of
from fabric.runs.plain_file import remove_durably, storing
from fabric.runs.run_directory import RunDirectory, run_path
from fabric.runs.run_document import PastRun, baselines_from, go_on_command, own_version, read_identity, read_run
from fabric.runs.run_lock import holding, refuse_at_work
from fabric.runs.samples import close_samples
from fabric.runs.stored_verdict import is_judged

MOST_DIFFERENCES = 12
"""How many differences are shown (a choice): a person needs to see of what kind they are, not all of them."""

RESUMED = "taken back when the run went on"
"""The reason in the history for taking back a change that a dead run left behind."""

_PLACE = re.compile(r"(.*\.source|scenario\.inventory)")
"""Where a file lay when the run began may differ: only the file's content counts."""


def look(path: Path, *, force: bool) -> tuple[PastRun, tuple[str, ...]]:
    """
    Return a run that shall go on, as its run.json says, and how its files differ from that now; alter nothing.

    Raises ConfigError if there is no such run, if it has ended, and unless *force* if the scenario, the inventory, a
    baseline or this tool has changed; StoreError if it is still going on, or if its history cannot be read.
    """
    path = run_path(path)
    if path.parent.name in ("", ".."):  # the lock is named after the folders above the run
        path = path.resolve()
    document = read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    refuse_at_work(path, scenario.hosts)  # first: reading the history and planning take a while
    done = _history(path, document)
    if done.over:
        raise ConfigError.at(path, _why_over(path))
    plan = plan_scenario(scenario, inventory)
    baselines = baselines_from(document, path / "run.json")
    differs = tuple(_differences(document, because_of(scenario)))
    unknown = _not_planned(plan, done)
    if unknown:
        text = f"its history has {counted(len(unknown), 'probe')} that this version does not plan, such as {unknown[0]}"
        raise ConfigError.at(path, f"{text}: go on with the version that began it")
    if differs and not force:
        raise ConfigError(Problem(str(path), 0, text) for text in (*differs[:MOST_DIFFERENCES], _conclusion(differs)))
    return PastRun(path, document, scenario, inventory, baselines, plan), differs


def _why_over(path: Path) -> str:
    """
    Say that the run has ended.

    One killed between its end and its reports has no reports, or those of an earlier interruption.
    """
    if not is_judged(path):
        return f"this run has ended, everything was measured, and it is not judged yet: fabric analyze {path}"
    return f"this run has ended: see it (fabric report {path}), or run its scenario anew (fabric run)"


def resume(
    past: PastRun,
    *,
    make_executor: MakeExecutor,
    observer: Observer,
    say: Callable[[str], None],
    reports: bool = True,
    reservation: Reservation | None = None,
    force: bool = False,
) -> ShownRun:
    """
    Take back what is open, then measure what is left; *say* is told what was found. Raises as ``app.run``.

    Before anything is measured it raises MayBeLive if a change of this run was not seen taken back, or if a guard holds
    a change of another run; ConfigError if another part goes by a name by now, unless *force*.
    """
    path, inventory = past.path, past.inventory
    results = path.parent.parent
    with holding(results, path.parent.name, past.scenario.hosts, run=path.name):
        _take_back(past, results, make_executor, say)
        refuse_while_open(results)
        with closing(make_executor(past.backend, inventory, int(past.document["seed"]))) as executor:
            nothing_held(executor, past.scenario, inventory, say)
            others = tuple(_other_parts(past, executor))
            if others and not force:
                raise ConfigError(
                    Problem(str(path), 0, text) for text in (*others[:MOST_DIFFERENCES], _conclusion(others))
                )
            for text in others:
                say(f"gone on all the same: {text}")
            done = _history(path, past.document)
            directory = _reopened(past, done, say)
            try:
                at_s = max(done.at_s, close_samples(path))
                _note_resumed(directory, done, at_s)
                if reservation is not None:
                    reservation.take(path, past.scenario.hosts, past.plan)
            except FabricError:
                directory.events.abandon()
                raise
            half = len(done.half_done)
            again = "1 was half done and begins again" if half == 1 else f"{half:,} were half done and begin again"
            kept = f"{counted(len(done.results), 'probe')} {'is' if len(done.results) == 1 else 'are'} done and kept"
            say(f"{kept}, {again}")
            executor.go_on(at_s)
            begun = Begun(past, directory, executor, replace(done, begun=True))
            return measured(begun, observer=observer, reports=reports)


def _other_parts(past: PastRun, executor: Executor) -> Iterator[str]:
    """
    Yield the parts that are not those that the run began with, by serial number or GUID, if it noted them.

    After a reboot ``mlx5_0`` may be the adapter that was ``mlx5_1``: results of both would go by one name.
    """
    before = read_identity(past.path) or {}
    now = identify(executor, past.inventory.topology, tuple(before)) if before else {}
    for host, identity in before.items():
        found = (one for one in changes(identity, now[host], now) if one.replaced and one.before and one.after)
        yield from (f"another part goes by this name by now: {one}" for one in found)


def _note_resumed(directory: RunDirectory, done: Progress, at_s: float) -> None:
    """Write to the history that the run goes on, and which changes have been taken back meanwhile."""
    for change_id in _missing_in_history(directory.path):
        directory.events.append("change", at_s, {"change": change_id, "state": "reverted", "reason": RESUMED})
    fields = {"times": done.resumed + 1, "kept": len(done.results), "again": len(done.half_done)}
    fields |= {"cut_bytes": directory.events.cut_bytes, "utc_s": round(time.time())}
    directory.events.append("resumed", at_s, fields)
    directory.flush()


def _take_back(past: PastRun, results: Path, make_executor: MakeExecutor, say: Callable[[str], None]) -> None:
    """
    Take back the run's open changes.

    Raises MayBeLive if not all were seen taken back, Interrupted if they were and somebody wants to stop.
    """
    path = past.path
    with in_order(say) as interruption:
        restored = restore(path, results=results, make_executor=make_executor)
    for one in restored:
        say(f"{'taken back' if one.certain else 'MAY BE LIVE'}: {one.text}")
    if not all(one.certain for one in restored):
        names = "; ".join(one.text for one in restored if not one.certain)
        raise MayBeLive(f"this run cannot go on: {names}; try again: fabric restore {path}")
    if interruption.times:
        raise Interrupted(f"interrupted; nothing of this run is open; to go on: {go_on_command(path, past.document)}")


def _missing_in_history(path: Path) -> list[str]:
    """Return the changes that the journal calls taken back and the history still calls in force."""
    states = {event["change"]: event["state"] for event in read_events(path / EVENTS) if event["event"] == "change"}
    back = last_states(path)
    return [name for name, state in back.items() if state in CLOSED and states.get(name, state) not in FINAL]


def _reopened(past: PastRun, done: Progress, say: Callable[[str], None]) -> RunDirectory:
    """
    Return the run directory, ready for more: a torn line is cut off, a request to stop is removed.

    The verdict of an earlier interruption is removed before anything more is measured. Otherwise, if the run were
    killed between its end and its reports, that verdict would pass for the verdict of the whole run. All of it can be
    made again.
    """
    path = past.path
    with storing(path / STOP, "cannot remove"):
        (path / STOP).unlink(missing_ok=True)
    directory = RunDirectory(path, added=done.added)
    try:
        remove_durably([*(path / name for name in OUTDATED_BY_MEASURING), *tickets_of(path), *leftovers(path)])
    except OSError as exc:
        directory.events.abandon()
        why = f"{exc.strerror}; it tells of an earlier interruption, and nothing was measured now"
        raise StoreError(f"{exc.filename or path}: cannot remove: {why}") from exc
    if directory.events.cut_bytes:
        cut = counted(directory.events.cut_bytes, "byte")
        say(f"{path / EVENTS}: cut off {cut} of a torn last line")
    if not done.begun:
        fields = {"run_id": path.name, "probes": past.plan.probes}
        directory.events.append("run_started", 0.0, fields)
        directory.flush()
    return directory


def _history(path: Path, document: Mapping[str, Any]) -> Progress:
    """Return how far the run came; a run that was killed before its first line has done nothing."""
    events = all_events(path)
    if events and events[0].get("run_id") != document["run_id"]:
        raise StoreError(f"{path / EVENTS}: the history of another run ({events[0].get('run_id')})")
    return progress_of(events)


def _not_planned(plan: Plan, done: Progress) -> list[str]:
    known = {probe.probe_id for probe in (*plan.planned, *done.added)}
    return [probe_id for probe_id in {**done.results, **done.attempts} if probe_id not in known]


def _differences(document: Mapping[str, Any], because: Because | None) -> Iterator[str]:
    """Yield what has changed since the run began, one line each."""
    was, now = document.get("versions", {}).get("fabric-testbench"), own_version()
    if was != now:
        yield f"fabric-testbench: the run was begun with {was}, this is {now}"
    given = document.get("given")
    if not given:
        yield "run.json does not say which files it was asked with, so they cannot be compared"
        return
    try:
        asked = prepare(Given.of(given))
        if because is not None:  # use the stored evidence: the run that failed the host may be gone
            asked = filled(asked, because)
    except ConfigError as exc:
        yield from (f"cannot be read as then: {problem}" for problem in exc.problems)
        return
    pairs = {
        **jsonable(resolved_document(asked.scenario, asked.inventory)),
        "baselines": jsonable({name: asdict(baseline) for name, baseline in asked.baselines.items()}),
    }
    then = {**document["asked"], "baselines": document["baselines"]}
    for part in ("scenario", "inventory", "baselines"):
        for place, was, now in unlike(then.get(part), pairs.get(part), part):
            if not _PLACE.fullmatch(place):
                yield f"{place}: was {in_words(was)}, is {in_words(now)}"


def _conclusion(differs: tuple[str, ...]) -> str:
    """
    Say what to do about the differences. Problems are sorted by their text, and this text sorts behind all differences.
    """
    more = len(differs) - MOST_DIFFERENCES
    many = f"there {'is' if more == 1 else 'are'} {counted(more, 'more difference')}, and a run"
    seen = many if more > 0 else "this run"
    return f"{seen} is one question: run the scenario anew, or go on as it was asked then: --force"
