"""Ends a run that goes on elsewhere, as a first Ctrl-C there would, and waits until it has ended."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fabric.engine.stop_file import NAME as STOP
from fabric.errors import ConfigError, MayBeLive, Problem, StoreError
from fabric.store.durable import write_durably
from fabric.store.events import FILE as EVENTS
from fabric.store.events import read_events
from fabric.store.journal import FILE as JOURNAL
from fabric.store.journal import read_journal
from fabric.store.left_open import CLOSED, open_or_may_be_live
from fabric.store.plain_file import is_there
from fabric.store.run_document import go_on_command, read_run
from fabric.store.run_folders import run_path
from fabric.store.run_lock import running

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Stopped:
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


def stop(path: Path, *, wait_s: float) -> Stopped:
    """
    Ask a run to stop, and wait at most *wait_s* until it has; 0: do not wait.

    Raises ConfigError when nobody works on it, StoreError when it cannot be asked, MayBeLive when its journal cannot be
    read: who works on it has been asked then.
    """
    path = run_path(path)
    go_on = go_on_command(path, read_run(path))
    holder = running(path)
    if holder is None:
        raise ConfigError(
            [Problem(str(path), 0, f"nobody works on this run, so there is nothing to stop; {_next(path, go_on)}")]
        )
    before: tuple[str, ...] = ()
    with suppress(MayBeLive):  # it is asked all the same, and told afterwards
        before = _open(path)
    began_s = time.monotonic()
    try:
        write_durably(path / STOP, b"")
    except OSError as exc:
        raise StoreError(f"{path / STOP}: cannot write: {exc.strerror}") from exc
    ended = _waited(path, began_s + wait_s)
    after = _open(path)
    states, finished = _states(path), _has_run_ended(path)
    return Stopped(
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
    return tuple(one.change_id for one in open_or_may_be_live(path / JOURNAL)) if is_there(path / JOURNAL) else ()


def _states(path: Path) -> dict[str, str]:
    if not is_there(path / JOURNAL):
        return {}
    return {entry["change"]: entry["state"] for entry in read_journal(path / JOURNAL)}


def _has_run_ended(path: Path) -> bool:
    if not is_there(path / EVENTS):
        return False
    return any(event["event"] == "run_ended" for event in read_events(path / EVENTS))


def _next(path: Path, go_on: str) -> str:
    if _has_run_ended(path):
        return f"it has ended: fabric report {path}"
    if _open(path):
        return f"it died with changes open: fabric restore {path}"
    return f"it was killed or interrupted: {go_on}"
