"""How far a run is, or many of them, from their files alone; and asking one to stop."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.app.watch import RunStatus, Watched
from fabric.engine.interruption import STOP
from fabric.errors import ConfigError, FabricError, MayBeLive
from fabric.runs.events import EVENTS, read_events
from fabric.runs.journal import CLOSED, JOURNAL, open_or_may_be_live, read_journal
from fabric.runs.plain_file import is_there, storing, write_durably
from fabric.runs.run_directory import run_folders, run_path
from fabric.runs.run_document import go_on_command, read_run
from fabric.runs.run_lock import running

MOST_JUDGED = 5_000
"""Planned probes of a run that is judged to be looked at (a choice: some seconds; 60,000 took 7 to 40 s, measured)."""


def status(path: Path) -> RunStatus:
    """One run, with its suspects so far; ConfigError when it is none, StoreError when its files cannot be read."""
    path = run_path(path)
    found = Watched(path).look()
    if found.state in ("killed", "interrupted"):
        found = replace(found, go_on=go_on_command(path, read_run(path)))
    if found.judged or not found.done:
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
            found.append(Watched(run).look())
        except (FabricError, OSError) as exc:
            found.append(RunStatus(str(run), run.parent.name, "unreadable", trouble=str(exc)))
    return found


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
    states, finished = last_states(path), _has_ended(path)
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


def _has_ended(run: Path) -> bool:
    return is_there(run / EVENTS) and any(read_events(run / EVENTS, "run_ended"))


def _next(path: Path, go_on: str) -> str:
    if _has_ended(path):
        return f"it has ended: fabric report {path}"
    if _open(path):
        return f"it died with changes open: fabric restore {path}"
    return f"it was killed or interrupted: {go_on}"
