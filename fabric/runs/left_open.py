"""Which changes of which runs may still be live, by their journals."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.errors import MayBeLive, StoreError
from fabric.model.change import Change, ChangeResult
from fabric.runs.journal import JOURNAL, Entry, read_journal
from fabric.runs.plain_file import is_there, plain_stream

CLOSED = frozenset({"reverted", "refused", "failed", "lost"})
"""States after which nothing of a change is left on the fabric."""

_MOST_TOLD = 5  # runs


@dataclass(frozen=True, slots=True)
class OpenChange:
    """
    A change that may be live: its last state, and the *intent* entry that says how to take it back.

    *running*: the run that made it is still at it.
    """

    journal: Path
    change_id: str
    state: str
    intent: Entry
    running: bool


def open_changes(path: Path) -> tuple[OpenChange, ...]:
    """The changes of one journal that were begun and are not known to be taken back."""
    states: dict[str, str] = {}
    intents: dict[str, Entry] = {}
    for entry in read_journal(path):
        states[entry["change"]] = entry["state"]
        if entry["state"] == "intent":
            intents[entry["change"]] = entry
    open_ids = [change_id for change_id in intents if states[change_id] not in CLOSED]
    running = bool(open_ids) and _is_written(path)
    return tuple(OpenChange(path, change_id, states[change_id], intents[change_id], running) for change_id in open_ids)


def _is_written(path: Path) -> bool:
    """Whether a living process holds the journal open for writing."""
    try:
        with plain_stream(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    return False


def journals(results: Path) -> tuple[Path, ...]:
    """What is called a journal in every run under a results folder, by name; not all of it need be one."""
    runs = results.glob("*/*") if results.is_dir() else ()
    return tuple(sorted(path / JOURNAL for path in runs if not path.is_symlink() and _is_in(path)))


def _is_in(run: Path) -> bool:
    """Whether a run has a journal; not where that cannot be seen, as in another account's folder."""
    try:
        return is_there(run / JOURNAL)
    except OSError:
        return False


def refuse_while_open(results: Path) -> None:
    """
    Nothing is measured on a fabric that an earlier run may have left altered: MayBeLive, which names every such run.

    StoreError where a run that goes on is making changes: that one takes them back itself.
    """
    at_work = ""
    left: list[str] = []
    for journal in journals(results):
        try:
            found = open_or_may_be_live(journal)
        except MayBeLive as exc:
            left.append(str(exc))
            continue
        run, names = journal.parent, ", ".join(one.change_id for one in found)
        if found and found[0].running:
            at_work = at_work or f"{run} is making changes right now ({names}); wait for it, or fabric stop {run}"
        elif found:
            left.append(f"{run} may have left changes behind ({names}); take them back: fabric restore {run}")
    if left:
        more = f"; and {len(left) - _MOST_TOLD} more" if len(left) > _MOST_TOLD else ""
        raise MayBeLive("; ".join(left[:_MOST_TOLD]) + more)
    if at_work:
        raise StoreError(at_work)


def open_or_may_be_live(journal: Path) -> tuple[OpenChange, ...]:
    """The same as ``open_changes``; with a journal that nobody can read nobody knows what is live."""
    try:
        return open_changes(journal)
    except StoreError as exc:
        ask = "ask the hosts (fabric restore --all-hosts --inventory FILE), then move this file away"
        raise MayBeLive(f"what was changed here cannot be read: {exc}; {ask}") from exc


def say_what_is_open(run: Path) -> None:
    """Raise MayBeLive when a run that ended early could not take everything back."""
    found = open_or_may_be_live(run / JOURNAL) if is_there(run / JOURNAL) else ()
    if found:
        names = ", ".join(one.change_id for one in found)
        raise MayBeLive(f"the run ended early, and this was not seen taken back: {names}; fabric restore {run}")


def settled(
    results: tuple[ChangeResult, ...], journal: Path, planned: Sequence[Change] = ()
) -> tuple[ChangeResult, ...]:
    """
    The results of a run as its journal knows better.

    What ``fabric restore`` took back since is no longer open, and still not as asked. What is open and was killed
    before the history told of it is open, of those *planned*. Raises MayBeLive for a journal that cannot be read.
    """
    if not is_there(journal):
        return results
    still = {one.change_id for one in open_or_may_be_live(journal)}
    said = "taken back later by fabric restore"
    told = {result.change.change_id for result in results}
    untold = "the run ended before it was seen taken back"
    silent = (change for change in planned if change.change_id in still - told)
    return tuple(
        replace(result, state="failed", reason=said)
        if result.state == "open" and result.change.change_id not in still
        else result
        for result in results
    ) + tuple(ChangeResult(change, "open", untold) for change in silent)
