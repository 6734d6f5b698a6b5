"""Take back what runs left behind. A run may be dead: its journal, or the guards on the hosts, are enough."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, closing
from pathlib import Path

from fabric.app.scheduler import give_back_all
from fabric.changes.guard import Guard
from fabric.changes.kinds import KINDS, UNUSABLE
from fabric.changes.procedure import Procedure, carry_out
from fabric.changes.restore import Intent, intent_of, recorded_undo, take_back, take_back_all, take_off_list
from fabric.config.inventory import load_inventory
from fabric.config.resolved import resolved_inventory
from fabric.engine.interruption import Interruption, listening
from fabric.errors import ConfigError, FabricError, MayBeLive, StoreError
from fabric.model.inventory import Inventory
from fabric.ports import MakeExecutor
from fabric.report.changes import Restored
from fabric.runs.events import all_events
from fabric.runs.journal import CLOSED, JOURNAL, Journal, OpenChange, journals, open_or_may_be_live, raise_if_open
from fabric.runs.plain_file import is_there
from fabric.runs.run_document import read_run


def restore(
    run: Path | None,
    *,
    results: Path,
    make_executor: MakeExecutor,
    inventory_path: Path | None = None,
    backend: str | None = None,
) -> list[Restored]:
    """
    Take back the open changes of a run, or of every run under *results*, and the reservations of dead runs.

    The hosts are reached as run.json says, or as *inventory_path* and *backend* say: then a run that lost its run.json
    is taken back from its journal alone. Raises ConfigError if it is not a run or still goes on; MayBeLive for a
    journal that cannot be read, or is gone while the history of *run* has changes that were not taken back, and when
    changes are open and nothing says how to reach their hosts. Over all runs, one that cannot be taken back is
    reported, and the others are taken back all the same.
    """
    reach = make_executor, inventory_path, backend
    if run is not None:
        if not is_there(run / JOURNAL):
            read_run(run)
            raise_if_open(run, _begun(run))
        changes, path = _taken_back(run, *reach), run.resolve()
        return [*changes, *_given_back(path.parent.parent, path)]
    found: list[Restored] = []
    for journal in journals(results):
        try:
            found += _taken_back(journal.parent, *reach)
        except FabricError as exc:
            found.append(Restored(str(journal.parent), "", "", str(exc), certain=False))
    return [*found, *_given_back(results.resolve())]


def _begun(run: Path) -> list[str]:
    """Return the changes that the history of a run saw begun and not taken back."""
    states = {event["change"]: event["state"] for event in all_events(run) if event["event"] == "change"}
    return [change for change, state in states.items() if state not in CLOSED]


def _given_back(results: Path, run: Path | None = None) -> list[Restored]:
    """
    Give back the reservations of one run or of all.

    A ledger that cannot be read becomes a line of the result, so that it hides no change that was taken back.
    """
    try:
        return list(give_back_all(results, run))
    except FabricError as exc:
        return [Restored(str(run or results), "", "", str(exc), certain=False)]


def in_order(say: Callable[[str], None]) -> AbstractContextManager[Interruption]:
    """
    Keep Ctrl-C, SIGTERM and SIGHUP from breaking off an undo: they are counted, and *say* is told of the first.

    The undo ends even so: each of its steps has a limit.
    """
    pending = ["interrupted: what is being taken back is taken back first"]

    def note() -> None:
        while pending:
            say(pending.pop())

    return listening(note)


def _taken_back(
    run: Path, make_executor: MakeExecutor, inventory_path: Path | None, backend: str | None
) -> list[Restored]:
    """Take back the open changes of one run."""
    changes = open_or_may_be_live(run / JOURNAL)
    if not changes:
        return []
    if changes[0].running:
        text = f"this run is still going on: end it (fabric stop {run}), and it takes its changes back itself"
        raise ConfigError.at(run, text)
    backend, inventory = _way_to(run, changes, inventory_path, backend)
    known = {*inventory.topology.hosts, *inventory.topology.logins}
    restored: list[Restored] = []
    with closing(Journal(run / JOURNAL)) as journal, closing(make_executor(backend, inventory)) as executor:
        carry_out((_restore_change(str(run), change, journal, restored, known) for change in changes), executor)
    return restored


def _way_to(
    run: Path, changes: tuple[OpenChange, ...], inventory_path: Path | None, backend: str | None
) -> tuple[str, Inventory]:
    """
    Return the backend and inventory that reach the hosts of a run; MayBeLive if neither run.json nor the caller knows.
    """
    if inventory_path is not None:
        inventory = load_inventory(inventory_path)
        return backend or inventory.backend, inventory
    try:
        document = read_run(run)
        return backend or document["backend"], resolved_inventory(document["asked"])
    except (FabricError, KeyError, TypeError) as exc:
        names = ", ".join(one.change_id for one in changes)
        raise MayBeLive(
            f"{run / 'run.json'} cannot be read ({exc}), so how to reach the hosts is not known; {run / JOURNAL} "
            f"says that these may be live: {names}; name the hosts: fabric restore {run} --inventory FILE; or "
            f"undo them by hand: {'; '.join(recorded_undo(one.intent) for one in changes)}"
        ) from exc


def _restore_change(
    run: str, change: OpenChange, journal: Journal, restored: list[Restored], known: Collection[str]
) -> Procedure[None]:
    """Take back one change, last alteration first; close it in the journal only when all of it is back."""
    own: list[Restored] = []

    def report(host: str, text: str, certain: bool) -> None:
        own.append(Restored(run, change.change_id, host, text, certain))

    try:  # trouble with one change must not keep the others from being taken back
        intent = _intent(change)
        for one in intent.guarded:
            if one.alteration.host in known:
                yield from take_back(one, report)
            else:
                report(one.alteration.host, "the inventory has no such host", False)
        list_was = intent.list_was
        if list_was is not None and list_was.via in known:
            yield from take_off_list(list_was, report)
        elif list_was is not None:
            report(list_was.via, "the inventory has no such host, so UFM was not asked", False)
        if intent.kind not in KINDS:
            why = UNUSABLE.get(intent.kind, "no package that is installed here has it")
            text = f"its kind {intent.kind!r} is not known here, so that more cannot be looked at: {why}"
            report("", f"{text}; install it and call fabric restore again", False)
        if all(one.certain for one in own):
            journal.record(change.change_id, "reverted", {"reason": "by fabric restore"})
    except StoreError as exc:
        report("", str(exc), False)
    restored += own


def _intent(change: OpenChange) -> Intent:
    try:
        return intent_of(change.intent)
    except (KeyError, TypeError, ValueError) as exc:
        text = f"{change.journal}: the intent of {change.change_id} is not as this version writes it"
        why = str(exc).partition("\n")[0]
        raise StoreError(f"{text} ({why}); its undo by hand: {recorded_undo(change.intent)}") from exc


def restore_hosts(inventory_path: Path, *, backend: str | None, make_executor: MakeExecutor) -> list[Restored]:
    """Take back whatever the guards on the hosts of an inventory hold, no matter who armed them."""
    inventory = load_inventory(inventory_path)
    settings = inventory.changes
    guard = Guard(settings.guard_directory, sudo=settings.sudo)
    restored: list[Restored] = []

    def report(host: str, text: str, certain: bool) -> None:
        restored.append(Restored("", "", host, text, certain))

    topology = inventory.topology
    switches = (name for name, login in topology.logins.items() if login.management)
    with closing(make_executor(backend or inventory.backend, inventory)) as executor:
        names = (*topology.hosts, *topology.management, *switches)
        carry_out((take_back_all(name, guard, report) for name in names), executor)
    return restored
