"""How far a run is, from its files alone: nobody is asked, nothing is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.engine.interruption import STOP
from fabric.errors import ConfigError, FabricError, MayBeLive
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.decision import decision_in
from fabric.report.told_verdict import ToldVerdict, told_verdict
from fabric.runs.durable import write_durably
from fabric.runs.events import EVENTS, Event, all_events
from fabric.runs.journal import JOURNAL, read_journal
from fabric.runs.open_changes import CLOSED, open_changes, open_or_may_be_live
from fabric.runs.plain_file import storing
from fabric.runs.progress import Progress, progress_of
from fabric.runs.run_document import go_on_command, read_run
from fabric.runs.run_folders import run_folders, run_path
from fabric.runs.run_lock import running

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
    from fabric.app.analyze import reopened  # what judges takes a while to import

    return replace(found, suspects=reopened(path).judged.verdict.suspects)


def all_runs(results: Path, *, most: int) -> list[RunStatus]:
    """
    The newest runs under a results folder, newest first; a run or a folder that cannot be read is told as such.

    Raises ConfigError where the folder is none, or cannot be read itself.
    """
    folders = run_folders(results)
    found = []
    for run in sorted((*folders.runs, *folders.closed), key=lambda path: (path.name, path.parent.name), reverse=True)[
        :most
    ]:
        if run in folders.closed:
            found.append(RunStatus(str(run), run.parent.name, "unreadable", trouble=folders.closed[run]))
            continue
        try:
            found.append(_status(run, told_verdict(run)))
        except (FabricError, OSError) as exc:
            found.append(RunStatus(str(run), run.parent.name, "unreadable", trouble=str(exc)))
    return found


def _status(run: Path, told: ToldVerdict | None) -> RunStatus:
    events = all_events(run)
    done = progress_of(events)
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
        open_changes=tuple(one.change_id for one in open_changes(run / JOURNAL)),
        judged=told is not None,
        no_number=sum(one.outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE) for one in done.results.values()),
        decision="" if decided is None else decided.value,
    )


def _state(run: Path, events: list[Event], done: Progress, *, at_work: bool) -> str:
    if done.over:
        return "ended"
    if at_work:
        return "stopping" if (run / STOP).exists() else "running"
    for event in reversed(events):
        if event["event"] in ("run_interrupted", "resumed"):
            return "interrupted" if event["event"] == "run_interrupted" else "killed"
    return "killed"


def _planned(events: list[Event]) -> int:
    """As its first line says, without rounds for which there was no time."""
    left_out = sum(int(event["probes"]) for event in events if event["event"] == "rounds_over")
    return int(events[0].get("probes", 0)) - left_out if events else 0


def _rate_per_min(events: list[Event]) -> float | None:
    """Finished probes a minute since the run began, or went on, by its clock."""
    begun = max((at for at, event in enumerate(events) if event["event"] == "resumed"), default=0)
    session = events[begun:]
    finished = sum(event["event"] == "finished" for event in session)
    took_s = session[-1]["at_s"] - session[0]["at_s"] if session else 0.0
    return 60.0 * finished / took_s if finished and took_s > 0.0 else None


_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """
    What became of a run that was asked to stop.

    *ended*: nobody works on it any more (False: not within the time). *finished*: it reached its own end first.
    *taken_back* are the changes that it took back since it was asked, *still_open* those that may be live.
    *go_on* is the command that measures what is left, empty where nothing is.
    """

    run: str
    ended: bool
    finished: bool
    took_s: float
    taken_back: tuple[str, ...]
    still_open: tuple[str, ...]
    go_on: str = ""

    @property
    def exit_code(self) -> int:
        """4 a change may still be live, 3 it has not ended yet, 0 otherwise."""
        if not self.ended:
            return 3
        return 4 if self.still_open else 0


def stop(path: Path, *, wait_s: float) -> StoppedRun:
    """
    Ask a run to stop, and wait at most *wait_s* until it has; 0: do not wait.

    Raises ConfigError when nobody works on it, StoreError when it cannot be asked, MayBeLive when its journal cannot be
    read: who works on it has been asked then.
    """
    path = run_path(path)
    go_on = go_on_command(path, read_run(path))
    holder = running(path)
    if holder is None:
        raise ConfigError.at(path, f"nobody works on this run, so there is nothing to stop; {_next(path, go_on)}")
    before: tuple[str, ...] = ()
    with suppress(MayBeLive):  # it is asked all the same, and told afterwards
        before = _open(path)
    began_s = time.monotonic()
    with storing(path / STOP):
        write_durably(path / STOP, b"")
    ended = _waited(path, began_s + wait_s)
    after = _open(path)
    states, finished = last_states(path), _has_ended(all_events(path))
    return StoppedRun(
        run=str(path),
        ended=ended,
        finished=finished,
        took_s=time.monotonic() - began_s,
        taken_back=tuple(one for one in before if one not in after and states.get(one) in CLOSED),
        still_open=after,
        go_on="" if finished else go_on,
    )


def _waited(path: Path, until_s: float) -> bool:
    """Until nobody works on it; False when that takes too long."""
    pause = threading.Event()
    while running(path) is not None:
        left_s = until_s - time.monotonic()
        if left_s <= 0.0:
            return False
        pause.wait(min(_LOOK_S, left_s))
    return True


def _open(path: Path) -> tuple[str, ...]:
    return tuple(one.change_id for one in open_or_may_be_live(path / JOURNAL))


def last_states(path: Path) -> dict[str, str]:
    """The state of every change of a run, as its journal says last."""
    return {entry["change"]: entry["state"] for entry in read_journal(path / JOURNAL)}


def _has_ended(events: Iterable[Event]) -> bool:
    return any(event["event"] == "run_ended" for event in events)


def _next(path: Path, go_on: str) -> str:
    if _has_ended(all_events(path)):
        return f"it has ended: fabric report {path}"
    if _open(path):
        return f"it died with changes open: fabric restore {path}"
    return f"it was killed or interrupted: {go_on}"
