"""Which changes of which runs may still be live, by their journals."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.errors import MayBeLive, StoreError
from fabric.model.change import ChangeResult
from fabric.store.journal import FILE, Entry, read_journal

CLOSED = frozenset({"reverted", "refused", "failed", "lost"})
"""States after which nothing of a change is left on the fabric."""


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
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    return False


def journals(results: Path) -> tuple[Path, ...]:
    """The journals of every run under a results folder, by name."""
    found = results.glob(f"*/*/{FILE}") if results.is_dir() else ()
    return tuple(sorted(path for path in found if not path.parent.is_symlink()))


def refuse_while_open(results: Path) -> None:
    """Nothing is measured on a fabric that an earlier run may have left altered."""
    for journal in journals(results):
        found = _open_or_may_be_live(journal)
        if found:
            run = journal.parent
            names = ", ".join(one.change_id for one in found)
            text = f"{run} is making changes right now" if found[0].running else f"{run} may have left changes behind"
            what = "wait for it, or interrupt it" if found[0].running else f"take them back: fabric restore {run}"
            raise MayBeLive(f"{text} ({names}); {what}")


def _open_or_may_be_live(journal: Path) -> tuple[OpenChange, ...]:
    """The same as ``open_changes``; with a journal that nobody can read nobody knows what is live."""
    try:
        return open_changes(journal)
    except StoreError as exc:
        ask = "ask the hosts (fabric restore --all-hosts --inventory FILE), then move this file away"
        raise MayBeLive(f"what was changed here cannot be read: {exc}; {ask}") from exc


def say_what_is_open(run: Path) -> None:
    """Raise MayBeLive when a run that ended early could not take everything back."""
    found = _open_or_may_be_live(run / FILE) if (run / FILE).exists() else ()
    if found:
        names = ", ".join(one.change_id for one in found)
        raise MayBeLive(f"the run ended early, and this was not seen taken back: {names}; fabric restore {run}")


def settled(results: tuple[ChangeResult, ...], journal: Path) -> tuple[ChangeResult, ...]:
    """The results of a run, with what ``fabric restore`` took back since: no longer open, and still not as asked."""
    if not journal.exists() or not any(result.state == "open" for result in results):
        return results
    still = {one.change_id for one in open_changes(journal)}
    said = "taken back later by fabric restore"
    return tuple(
        replace(result, state="failed", reason=said)
        if result.state == "open" and result.change.change_id not in still
        else result
        for result in results
    )
