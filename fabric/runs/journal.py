"""The write-ahead journal of changes (changes.jsonl): how changes ended, which may still be live; and the ledger.

A line is fsynced, and the folders when the file is new, before ``record`` returns: after any crash the journal knows
everything that may be live on the fabric. The ledger of a results folder has the same form and records what a scheduler
was told; it belongs to no single run, so a writer waits for its turn.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path, PurePath
from typing import Any

from fabric.errors import MayBeLive, StoreError
from fabric.model import gathered
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.text import some
from fabric.runs.events import Event
from fabric.runs.line_log import Limits, Line, LineLog, read_lines
from fabric.runs.plain_file import GIB, MIB, is_there, plain_stream, storing
from fabric.runs.run_lock import flocked

JOURNAL = "changes.jsonl"
"""Its name in a run's directory."""

LIMITS = Limits(GIB, 16 * MIB, many_at_once=False)
"""Limits of a journal (a choice: a change every second for two days makes a tenth of it)."""

CLOSED = frozenset({"reverted", "refused", "failed", "lost"})
"""States after which nothing of a change is left on the fabric."""

Entry = Line
"""One line: ``seq``, ``change`` (its id), ``state``, and the fields of that state."""


class Journal:
    """
    Appends entries, each durable when ``record`` returns; the file is made with the first entry.

    *unsettled*: the changes begun through it whose end is not on disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: LineLog | None = None
        self._begun = False
        self.unsettled: dict[str, None] = {}

    def record(self, change_id: str, state: str, fields: Mapping[str, Any]) -> None:
        """
        Write one entry and fsync it; raises StoreError when the disk fails (then the step must not be taken).

        A file that somebody deleted is not made again: without what it said before, the rest means nothing.
        """
        if self._log is None:
            if self._begun and not is_there(self._path):
                raise StoreError(f"{self._path}: cannot write: it was deleted or moved")
            self._log = LineLog(self._path, LIMITS)
            self._begun = True
        self.unsettled[change_id] = None
        try:
            self._log.add({"change": change_id, "state": state, **fields})
            self._log.flush()
        except StoreError:
            self._log.abandon()  # the next entry opens it anew, behind what was written
            self._log = None
            raise
        if state in CLOSED:
            del self.unsettled[change_id]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._log is not None:
            self._log.close()
            self._log = None


def read_journal(path: Path) -> tuple[Entry, ...]:
    """
    Return every whole entry, in order; none where nothing was changed.

    Raises StoreError for a bad line that is not a torn last one.
    """
    entries = tuple(read_lines(path, LIMITS)) if is_there(path) else ()
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry.get("change"), str) or not isinstance(entry.get("state"), str):
            raise StoreError(f"{path}:{number}: not a line of this tool")
    return entries


_MOST_RUNS = 5  # runs named in one message


@dataclass(frozen=True, slots=True)
class OpenChange:
    """
    A change that may be live, and the *intent* entry that says how to take it back.

    *running*: the run that made it is still at work.
    """

    journal: Path
    change_id: str
    intent: Entry
    running: bool


def open_changes(path: Path) -> tuple[OpenChange, ...]:
    """Return the changes of one journal that were begun and are not known to be taken back."""
    entries = read_journal(path)
    states = {entry["change"]: entry["state"] for entry in entries}
    intents = {entry["change"]: entry for entry in entries if entry["state"] == "intent"}
    open_ids = [change_id for change_id in intents if states[change_id] not in CLOSED]
    running = bool(open_ids) and _is_written(path)
    return tuple(OpenChange(path, change_id, intents[change_id], running) for change_id in open_ids)


def _is_written(path: Path) -> bool:
    """Return whether a living process holds the journal open for writing."""
    with storing(path, "cannot read"), plain_stream(path) as file:
        return not flocked(file.fileno(), fcntl.LOCK_SH)


def journals(results: Path) -> tuple[Path, ...]:
    """Return the files named as a journal in all runs under a results folder, by name; they may hold anything."""
    runs = results.glob("*/*") if results.is_dir() else ()
    return tuple(sorted(path / JOURNAL for path in runs if not path.is_symlink() and _is_in(path)))


def _is_in(run: Path) -> bool:
    """Return whether a run has a journal; False if that cannot be seen, as in another account's folder."""
    with suppress(OSError):
        return is_there(run / JOURNAL)
    return False


def refuse_while_open(results: Path) -> None:
    """
    Refuse to measure on a fabric that an earlier run may have left altered: MayBeLive, which names every such run.

    StoreError if a run that is going on makes changes: it takes them back itself.
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
        raise MayBeLive(some(left, _MOST_RUNS, "; "))
    if at_work:
        raise StoreError(at_work)


def open_or_may_be_live(journal: Path) -> tuple[OpenChange, ...]:
    """Return ``open_changes``; raises MayBeLive for an unreadable journal, since nobody knows what is live then."""
    try:
        return open_changes(journal)
    except StoreError as exc:
        ask = "ask the hosts (fabric restore --all-hosts --inventory FILE), then move this file away"
        raise MayBeLive(f"what was changed here cannot be read: {exc}; {ask}") from exc


def raise_if_open(run: Path, unsettled: Iterable[str] = ()) -> None:
    """
    Raise MayBeLive when a run that ended early could not take everything back, or nobody can tell.

    *unsettled*: what the run's process knows of changes whose end it could not write down.
    """
    try:
        found = open_or_may_be_live(run / JOURNAL)
    except MemoryError as exc:
        raise MayBeLive(f"there is no memory left to read {run / JOURNAL}: fabric restore {run}") from exc
    if found:
        names = ", ".join(one.change_id for one in found)
        raise MayBeLive(f"the run ended early, and this was not seen taken back: {names}; fabric restore {run}")
    names = ", ".join(unsettled)
    if names and not is_there(run / JOURNAL):
        ask = "ask the hosts: fabric restore --all-hosts --inventory FILE"
        raise MayBeLive(
            f"{run / JOURNAL} was deleted or moved, and this was not written down as taken back: {names}; {ask}"
        )


def settled(journal: Path, events: Iterable[Event], planned: Sequence[Change]) -> tuple[ChangeResult, ...]:
    """
    Return ``change_results`` of a run, corrected by its journal.

    A change that ``fabric restore`` took back since is no longer open, but failed. A *planned* change is open if it is
    open in the journal and the run was killed before the history mentioned it. Raises MayBeLive for a journal that
    cannot be read.
    """
    results = change_results(events, planned) if planned else ()
    if not planned or not is_there(journal):
        return results
    still = {one.change_id for one in open_or_may_be_live(journal)}
    taken_back = "taken back later by fabric restore"
    recorded = {result.change.change_id for result in results}
    not_seen = "it was not seen taken back"
    silent = (change for change in planned if change.change_id in still - recorded)
    return tuple(
        replace(result, state="failed", reason=taken_back)
        if result.state == "open" and result.change.change_id not in still
        else result
        for result in results
    ) + tuple(ChangeResult(change, "open", not_seen) for change in silent)


FINAL = CLOSED | {"open"}
"""States that end a change; ``open`` means that nobody knows."""

_BEGUN = frozenset({"intent", "armed", "in_force", "lifted"})


def change_results(events: Iterable[Event], planned: Sequence[Change]) -> tuple[ChangeResult, ...]:
    """
    Return how each planned change ended, in planned order; changes that were never begun are left out.

    A change whose last event is not a final state is ``open``: the run ended, and nobody saw it taken back. A change
    that was begun anew (in a resumed run) counts from its last beginning; only a change that is in force for all of its
    phase keeps its earlier windows. Raises StoreError for an unknown state, and for a change that is not planned: a
    plan that differs from what was run must not hide a change that may be live.
    """
    known = {change.change_id: change for change in planned}
    by_change = gathered((event["change"], event) for event in events if event["event"] == "change")
    for name, those in by_change.items():
        if name not in known:
            raise StoreError(f"event {those[0]['seq']}: the plan has no change {name!r}")
    return tuple(_result(change, by_change[name]) for name, change in known.items() if name in by_change)


def _result(change: Change, events: Sequence[Event]) -> ChangeResult:
    """Return how a change that was begun ended."""
    since, last, windows = 0, "", list[Window]()
    for place, event in enumerate(events):
        state = event["state"]
        if state not in FINAL | _BEGUN:
            raise StoreError(f"event {event['seq']}: a change is never {state!r}")
        if state == "intent" or (last in FINAL and state in _BEGUN):
            since = place
            # What was measured before an interruption stands, and was measured while the change was in force.
            whole = change.when.at_s is None and change.when.for_s is None
            windows = [one for one in windows if whole and one.ended_s is not None]
        on = bool(windows) and windows[-1].ended_s is None
        if state == "in_force" and not on:
            windows.append(Window(event["at_s"], None))
        elif on and state not in ("in_force", "open", "intent", "armed"):
            windows[-1] = Window(windows[-1].began_s, event["at_s"])
        last = state
    return _ended(change, events[since:], windows)


def _ended(change: Change, events: Sequence[Event], windows: Sequence[Window]) -> ChangeResult:
    """Return the last state since its last beginning, and by how much counters grew."""
    state, reasons = events[-1]["state"], [events[-1].get("reason", "")]
    if state not in FINAL:
        state = "open"
        reasons.append("it was not seen taken back")
    before = [event.get("counters", {}) for event in events if event["state"] == "in_force"]
    after = [event.get("counters", {}) for event in events if event["state"] in FINAL]
    growth, left_out = _growth(before[0] if before else {}, after[-1] if after else {})
    if left_out:
        reasons.append(f"counters left out, they went down or vanished: {', '.join(left_out)}")
    return ChangeResult(change, state, "; ".join(filter(None, reasons)), tuple(windows), growth)


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """
    Return by how much each counter grew, and the names of those that cannot be compared.

    A counter that was not there before has no known growth. If nothing at all was read afterwards, no counter counts as
    vanished.
    """
    growth: dict[str, float] = {}
    left_out: list[str] = []
    for name, value in before.items():
        grew = after.get(name, -inf) - value
        if grew >= 0.0:
            growth[name] = float(grew)
        elif after:
            left_out.append(name)
    return growth, left_out


LEDGER = "scheduler.jsonl"
"""Its name in the results folder."""

_WAIT_S = 30.0
"""
How long to wait for the ledger (seconds): as long as one answer of Slurm may take, while another process holds it.
"""

_AGAIN_S = 0.05


class LedgerEntry:
    """Writes a ledger line before a scheduler is told something, and one after it; *state* says what came of it."""

    def __init__(self, ledger: Path, name: str, act: str, **fields: str) -> None:
        self._journal, self._name, self.state = Journal(ledger), name, "not seen"
        self._fields = {"act": act, **fields}

    def __enter__(self) -> LedgerEntry:
        until_s = time.monotonic() + _WAIT_S
        while True:
            try:
                self._record("intended")
            except StoreError as exc:
                if not isinstance(exc.__cause__, BlockingIOError) or time.monotonic() > until_s:
                    raise
                time.sleep(_AGAIN_S)  # another process, such as the gate of another host, is writing a line
            else:
                return self

    def __exit__(self, *_: object) -> None:
        try:
            self._record(self.state)
        finally:
            self._journal.close()

    def _record(self, state: str) -> None:
        self._journal.record(self._name, state, {**self._fields, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def drains(results: Path) -> Mapping[str, str]:
    """Return the reason of the last recorded drain of each node."""
    lines = read_journal(results / LEDGER)
    return {line["change"]: str(line.get("reason")) for line in lines if line.get("act") == "drain"}


def reservations(results: Path) -> Mapping[str, Path]:
    """
    Return the run of each reservation, by name, that may still stand: not refused, and not seen to be gone.

    Raises StoreError for a ledger that cannot be read.
    """
    may_stand: dict[str, Path] = {}
    for line in read_journal(results / LEDGER):
        if (line.get("act"), line["state"]) in (("reserve", "refused"), ("unreserve", "done")):
            may_stand.pop(line["change"], None)
        elif line.get("act") == "reserve":
            place = PurePath(str(line.get("run", "..")))
            if place.is_absolute() or ".." in place.parts:
                raise StoreError(f"{results / LEDGER}: the reservation {str(line['change'])[:80]!r} has no run")
            may_stand[line["change"]] = results / place
    return may_stand


def reserved_by(run: Path) -> tuple[str, ...]:
    """Return the reservations of one run that may still stand. Raises StoreError."""
    run = run.resolve()
    return tuple(name for name, path in reservations(run.parent.parent).items() if path == run)
