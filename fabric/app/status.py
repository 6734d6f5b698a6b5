"""How far a run is, from its files alone: nobody is asked, nothing is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic_core import PydanticCustomError

from fabric.engine.interruption import STOP
from fabric.engine.left_out import FOLDER
from fabric.errors import ConfigError, FabricError, MayBeLive, Problem, StoreError
from fabric.model.fields.folded import FoldedNames
from fabric.model.fields.wording import nearest
from fabric.model.outcome import Outcome
from fabric.model.part import Part
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


MOST_NAMES = 10_000
"""Of one set of hosts (a choice: each becomes a file in the run's directory)."""


@dataclass(frozen=True, slots=True)
class Readmitted:
    """
    Which *hosts* a run was asked to let in again.

    *at_work*: somebody works on it now, else it must go on first, by the command *go_on*.
    """

    run: str
    hosts: tuple[str, ...]
    at_work: bool
    go_on: str


def readmit(path: Path, hosts: Sequence[str]) -> Readmitted:
    """
    Ask a run to measure hosts again that it left out, or that had stopped answering.

    *hosts* are names or sets of names (``gpu[003,011]``), or ``all``: every host that is out of the run. Raises
    ConfigError with everything that is wrong: no run, one that has ended, a host that it does not have or that is not
    left out. StoreError when the run cannot be asked.
    """
    path = run_path(path)
    document = read_run(path)
    events = all_events(path)
    if _has_ended(events):
        text = "this run has ended: validate the repair by itself, fabric run scenarios/post-repair.yaml --because RUN"
        raise ConfigError.at(path, text)
    known, away = tuple(document["asked"]["scenario"]["hosts"]), _away(events)
    wanted, said = _unfolded(hosts, sorted(away))
    said += [_wrong(host, known, away) for host in wanted if host not in away or host not in known]
    if said:
        raise ConfigError(Problem("HOST", 0, text) for text in said)
    for host in wanted:
        _ask(path / FOLDER, host)
    return Readmitted(str(path), wanted, running(path) is not None, go_on_command(path, document))


def _unfolded(texts: Sequence[str], away: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The hosts that are meant, each once, in the order written; and what is wrong with the texts."""
    found: dict[str, None] = {}
    said: list[str] = []
    for text in texts:
        if text == "all":
            found.update(dict.fromkeys(away))
            said += [] if away else ["no host is out of the run: nothing to readmit"]
            continue
        try:
            found.update(dict.fromkeys(FoldedNames(MOST_NAMES).parse(text).names()))
        except PydanticCustomError as exc:
            said.append(exc.message())
        except ValueError as exc:
            said.append(f"{text}: {exc}")
    return tuple(found), said


def _ask(folder: Path, host: str) -> None:
    with storing(folder / host):
        folder.mkdir(mode=0o755, exist_ok=True)
        if folder.is_symlink():
            raise StoreError(f"{folder}: cannot write: a link, which leads somewhere else")
        write_durably(folder / host, b"")


def _away(events: Sequence[Event]) -> set[str]:
    """Hosts that take no part now: left out, not answering (they, or a part), or not let into the present phase."""
    done = progress_of(events)
    excluded: set[str] = set()
    for event in events:
        if event["event"] == "phase_started":
            excluded = set(event["excluded"])
        elif event["event"] == "readmitted":
            excluded.discard(event["component"])
    return excluded.union(done.left_out, (Part.of(name).host for name in done.out))


def _wrong(host: str, known: Sequence[str], away: set[str]) -> str:
    if host not in known:
        return f"no host '{host}' in this run{nearest(host, known)}"
    return f"{host} takes part: nothing to readmit (out of the run: {', '.join(sorted(away)) or 'none'})"
