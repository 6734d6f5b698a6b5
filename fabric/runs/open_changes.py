"""What became of changes: how each ended by the history of its run, and which may still be live by the journals."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from fabric.errors import MayBeLive, StoreError
from fabric.model.change import Change, ChangeResult, Window
from fabric.runs.events import Event
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
    """Raise MayBeLive when a run that ended early could not take everything back, or nobody can tell."""
    try:
        found = open_or_may_be_live(run / JOURNAL)
    except MemoryError as exc:
        raise MayBeLive(f"there is no memory left to read {run / JOURNAL}: fabric restore {run}") from exc
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
    untold = "it was not seen taken back"
    silent = (change for change in planned if change.change_id in still - told)
    return tuple(
        replace(result, state="failed", reason=said)
        if result.state == "open" and result.change.change_id not in still
        else result
        for result in results
    ) + tuple(ChangeResult(change, "open", untold) for change in silent)


FINAL = frozenset({"reverted", "refused", "failed", "lost", "open"})
"""States that end a change; ``open`` means that nobody knows."""

_BEGUN = frozenset({"intent", "armed", "in_force", "lifted"})


def change_results(events: Iterable[Event], planned: Sequence[Change]) -> tuple[ChangeResult, ...]:
    """
    How each planned change ended, in planned order; those of which nothing was begun are left out.

    One whose last event is not a final state is ``open``: the run ended, and nobody saw it taken back. A change that
    was begun anew (a run that went on) counts from its last beginning; only the windows of one that is in force for all
    of its phase add up. Raises StoreError for a state that there is not,
    and for a change that is not planned: a plan that differs from what was run must not hide one that may be live.
    """
    known = {change.change_id: change for change in planned}
    told: dict[str, list[Event]] = {name: [] for name in known}
    for event in events:
        if event["event"] == "change":
            if event["change"] not in known:
                raise StoreError(f"event {event['seq']}: the plan has no change {event['change']!r}")
            told[event["change"]].append(event)
    return tuple(_result(change, told[name]) for name, change in known.items() if told[name])


def _result(change: Change, events: Sequence[Event]) -> ChangeResult:
    """How one change ended, of which something was begun."""
    since, last, windows = 0, "", list[Window]()
    for place, event in enumerate(events):
        state = event["state"]
        if state not in FINAL | _BEGUN:
            raise StoreError(f"event {event['seq']}: a change is never {state!r}")
        if state == "intent" or (last in FINAL and state in _BEGUN):
            since = place
            # What was measured before a run was interrupted stands, and was measured while the change was in force.
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
    """Of the events since its last beginning: the last state, and by how much counters grew."""
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


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """
    By how much each counter grew, and the names of those that cannot be compared.

    A counter that was not there before is no growth that we know of; when nothing at all was read afterwards, nothing
    vanished.
    """
    growth: dict[str, float] = {}
    left_out: list[str] = []
    for name, value in before.items():
        grew = _number(after.get(name)) - _number(value)
        if grew >= 0.0:
            growth[name] = grew
        elif after:
            left_out.append(name)
    return growth, left_out


def _number(value: object) -> float:
    """NaN, which compares with nothing, for what is no finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    return float("nan")
