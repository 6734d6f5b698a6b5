"""How far a run is, from its files alone: nobody is asked, nothing is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.engine.stop_file import NAME as STOP
from fabric.errors import FabricError
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.decision import decision_in
from fabric.report.told_verdict import ToldVerdict, told_verdict
from fabric.store.events import FILE as EVENTS
from fabric.store.events import Event, read_events
from fabric.store.journal import FILE as JOURNAL
from fabric.store.left_open import open_changes
from fabric.store.plain_file import is_there
from fabric.store.run_document import go_on_command, read_run
from fabric.store.run_folders import run_folders, run_path
from fabric.store.run_lock import running
from fabric.store.so_far import SoFar, so_far

MOST_JUDGED = 5_000
"""Planned probes of a run that is judged to be looked at (a choice: some seconds; 60,000 took 7 to 40 s, measured)."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """
    One run at one moment.

    *state*: ``running``; ``stopping`` (asked to, and not over yet); ``ended``; ``interrupted`` (it ended in order
    before it was done); ``killed`` (it died); ``unreadable``, with *trouble*. *judged*: there is a verdict.json that
    speaks of all that was measured; *outcome* is what it says, empty while the run goes on, and *decision* whether a
    repaired host may return (``ACCEPT``, empty: the run decides nothing, or not yet). *done* of *planned* probes,
    including those that were planned while it went on. *rate_per_min* and *left_s* are of this session and by the run's
    clock, None where nothing can be said. *event_age_s* is by the clock of this machine. *holder* is who runs it.
    *open_changes* may be live on the fabric. *suspects* are None where more probes would have to be judged than a look
    may take. *no_number* counts finished probes whose tools gave none. *go_on* is the command that measures the
    rest of a run that was killed or interrupted; empty for others, and where many runs are told.
    """

    run: str
    scenario: str
    state: str
    outcome: str = ""
    phase: str = ""
    done: int = 0
    planned: int = 0
    rate_per_min: float | None = None
    left_s: float | None = None
    event_age_s: float | None = None
    resumed: int = 0
    holder: str = ""
    open_changes: tuple[str, ...] = ()
    suspects: tuple[Suspect, ...] | None = ()
    trouble: str = ""
    judged: bool = False
    no_number: int = 0
    decision: str = ""
    go_on: str = ""


def status(path: Path) -> RunStatus:
    """One run, with its suspects so far; ConfigError when it is none, StoreError when its files cannot be read."""
    path = run_path(path)
    document = read_run(path)
    told = told_verdict(path)
    found = _status(path, told)
    if found.state in ("killed", "interrupted"):
        found = replace(found, go_on=go_on_command(path, document))
    if told is not None:
        return replace(found, suspects=told.suspects)
    if not found.done:
        return found
    if found.planned > MOST_JUDGED:
        return replace(found, suspects=None)
    from fabric.app_judge import reopened  # what judges takes a while to import

    return replace(found, suspects=reopened(path).judged.verdict.suspects)


def all_runs(results: Path, *, most: int) -> list[RunStatus]:
    """
    The newest runs under a results folder, newest first; a run or a folder that cannot be read is told as such.

    Raises ConfigError where the folder is none, or cannot be read itself.
    """
    folders = run_folders(results)
    closed = {one.path: one.why for one in folders.closed}
    found = []
    for run in sorted((*folders.runs, *closed), key=lambda path: (path.name, path.parent.name), reverse=True)[:most]:
        if run in closed:
            found.append(RunStatus(str(run), run.parent.name, "unreadable", trouble=closed[run]))
            continue
        try:
            found.append(_status(run, told_verdict(run)))
        except (FabricError, OSError) as exc:
            found.append(RunStatus(str(run), run.parent.name, "unreadable", trouble=str(exc)))
    return found


def _status(run: Path, told: ToldVerdict | None) -> RunStatus:
    events = list(read_events(run / EVENTS)) if is_there(run / EVENTS) else []
    done = so_far(events)
    holder = running(run)
    known = set(done.results)
    planned = _planned(events) + len(done.added)
    rate = _rate_per_min(events)
    left = planned - len(known)
    outcome = "" if told is None or (holder is not None and not done.over) else told.outcome
    decided = decision_in(run) if outcome else None
    return RunStatus(
        run=str(run),
        scenario=run.parent.name,
        state=_state(run, events, done, at_work=holder is not None),
        outcome=outcome,
        phase=next((event["phase"] for event in reversed(events) if event["event"] == "phase_started"), ""),
        done=len(known),
        planned=planned,
        rate_per_min=rate,
        left_s=60.0 * left / rate if rate and holder is not None and not done.over else None,
        event_age_s=time.time() - (run / EVENTS).stat().st_mtime if events else None,
        resumed=done.resumed,
        holder="" if holder is None else holder.text,
        open_changes=tuple(one.change_id for one in open_changes(run / JOURNAL)) if is_there(run / JOURNAL) else (),
        judged=told is not None,
        no_number=sum(one.outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE) for one in done.results.values()),
        decision="" if decided is None else decided.value,
    )


def _state(run: Path, events: list[Event], done: SoFar, *, at_work: bool) -> str:
    if done.over:
        return "ended"
    if at_work:
        return "stopping" if (run / STOP).exists() else "running"
    for event in reversed(events):
        if event["event"] in ("run_interrupted", "resumed"):
            return "interrupted" if event["event"] == "run_interrupted" else "killed"
    return "killed"


def _planned(events: list[Event]) -> int:
    """As its first line says, without rounds for which there was no time; of an older run what its phases say."""
    if events and "probes" in events[0]:
        left_out = sum(int(event["probes"]) for event in events if event["event"] == "rounds_over")
        return int(events[0]["probes"]) - left_out
    return sum({e["phase"]: int(e["probes"]) for e in events if e["event"] == "phase_started"}.values())


def _rate_per_min(events: list[Event]) -> float | None:
    """Finished probes a minute since the run began, or went on, by its clock."""
    begun = max((at for at, event in enumerate(events) if event["event"] == "resumed"), default=0)
    session = events[begun:]
    finished = sum(event["event"] == "finished" for event in session)
    took_s = session[-1]["at_s"] - session[0]["at_s"] if session else 0.0
    return 60.0 * finished / took_s if finished and took_s > 0.0 else None
