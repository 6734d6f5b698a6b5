"""Take back what runs left behind; the run itself need not be alive, only its journal, or the guards on the hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fabric.changes.guard import Guard
from fabric.changes.procedure import Procedure
from fabric.changes.restore import Left, left_by, take_back, take_back_all
from fabric.config import from_resolved, load_inventory
from fabric.engine.carry_out import carry_out
from fabric.errors import ConfigError, FabricError, Problem, StoreError
from fabric.model.inventory import Inventory
from fabric.ports import Executor
from fabric.store.journal import FILE, Journal
from fabric.store.left_open import OpenChange, journals, open_changes
from fabric.store.run_document import read_run

MakeExecutor = Callable[[str, Inventory], Executor]
"""Builds the executor of a backend, by its name."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of one alteration; *certain*: nothing of it is left."""

    run: str
    text: str
    certain: bool


def restore(run: Path | None, *, results: Path, make_executor: MakeExecutor) -> list[Restored]:
    """
    Take back the open changes of a run, or of every run under *results*.

    Raises ConfigError for a run that is none or still going on, StoreError for a journal that cannot be read. Of every
    run: one that cannot be taken back keeps no other from it, and is reported.
    """
    if run is not None:
        if not (run / FILE).exists():
            read_run(run)
            return []
        return _restore_journal(run / FILE, make_executor)
    found: list[Restored] = []
    for journal in journals(results):
        try:
            found += _restore_journal(journal, make_executor)
        except FabricError as exc:
            found.append(Restored(str(journal.parent), str(exc), certain=False))
    return found


def _restore_journal(journal: Path, make_executor: MakeExecutor) -> list[Restored]:
    changes = open_changes(journal)
    return _restore_run(journal.parent, changes, make_executor) if changes else []


def _restore_run(path: Path, changes: tuple[OpenChange, ...], make_executor: MakeExecutor) -> list[Restored]:
    if changes[0].running:
        text = "this run is still going on: interrupt it (Ctrl-C, SIGINT), and it takes its changes back itself"
        raise ConfigError([Problem(str(path), 0, text)])
    document = read_run(path)
    _, inventory = from_resolved(document["asked"])
    journal = Journal(path / FILE)
    told: list[Restored] = []
    executor = make_executor(document["backend"], inventory)
    try:
        carry_out((_restore_change(str(path), change, journal, told) for change in changes), executor)
    finally:
        executor.close()
        journal.close()
    return told


def _restore_change(run: str, change: OpenChange, journal: Journal, told: list[Restored]) -> Procedure[None]:
    """One change, the last alteration first; it is closed in the journal only when all of it is back."""
    before = len(told)

    def report(text: str, certain: bool) -> None:
        told.append(Restored(run, f"{change.change_id}: {text}", certain))

    try:  # what is wrong with one must not keep the others from being taken back
        for left in _left(change):
            yield from take_back(left, report)
        if all(one.certain for one in told[before:] if one.text.startswith(f"{change.change_id}: ")):
            journal.record(change.change_id, "reverted", {"reason": "by fabric restore"})
    except StoreError as exc:
        report(str(exc), False)


def _left(change: OpenChange) -> Iterator[Left]:
    try:
        yield from left_by(change.intent)
    except (KeyError, TypeError) as exc:
        text = f"{change.journal}: the intent of {change.change_id} is not as this version writes it: {exc}"
        raise StoreError(text) from exc


def restore_hosts(inventory_path: Path, *, backend: str | None, make_executor: MakeExecutor) -> list[Restored]:
    """Take back whatever guards on the hosts of an inventory hold, whoever armed them."""
    inventory = load_inventory(inventory_path)
    settings = inventory.changes
    guard = Guard(settings.guard_directory, sudo=settings.sudo)
    told: list[Restored] = []

    def report(text: str, certain: bool) -> None:
        told.append(Restored("", text, certain))

    executor = make_executor(backend or inventory.backend, inventory)
    try:
        carry_out((take_back_all(host, guard, report) for host in inventory.topology.hosts), executor)
    finally:
        executor.close()
    return told
