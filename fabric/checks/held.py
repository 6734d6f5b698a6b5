"""What the guards of hosts hold: a change that another run makes, or one that nobody has taken back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.changes.guard import Guard, Listed
from fabric.checks.kind import HostAnswer, ask_all, excuse, problem, quoted, unknown, warning
from fabric.errors import ChangeError, MayBeLive
from fabric.model.fields.folded import some
from fabric.model.finding import Finding
from fabric.model.inventory import Inventory
from fabric.model.text import some as first_of
from fabric.ports import Executor

NAME = "held"
MOST_NAMED = 8
"""Most held changes that a refusal names (a choice: one screen)."""

_WHY = "it alters the fabric: what is measured meanwhile is the change, not the fabric"
# This text exits 0 where a guard may have kept something. It needs neither root nor the guard's own program: almost
# everywhere there is no such directory. A directory whose parent cannot be searched may be there.
_LOOK = 'for d; do if [ -e "$d" ] || [ ! -x "${d%/*}" ]; then exit 0; fi; done; exit 1'


@dataclass(frozen=True, slots=True)
class GuardsAsked:
    """The changes that the guards of some hosts hold. *unasked*: hosts that could not be asked, and why."""

    held: tuple[Listed, ...]
    unasked: Mapping[str, str]


def holders(inventory: Inventory, hosts: Iterable[str]) -> tuple[str, ...]:
    """
    Return the hosts that could hold a change that *hosts* would feel: they, and those that alter switches or routes.
    """
    settings, topology = inventory.changes, inventory.topology
    via = () if settings.via is None else (settings.via,)
    managers = (manager.host for manager in settings.subnet_managers)
    switches = (name for name, login in topology.logins.items() if login.management)
    return tuple(dict.fromkeys((*hosts, *via, *managers, *switches)))


def held_on(executor: Executor, inventory: Inventory, hosts: Sequence[str]) -> GuardsAsked:
    """
    Ask every one of *hosts* what its guard holds; alters nothing.

    First ask a host, without root, whether a guard's directory exists; a host without one is not asked further.
    """
    settings = inventory.changes
    guard = Guard(settings.guard_directory, sudo=settings.sudo)
    look = ("sh", "-c", _LOOK, "fabric-held", guard.directory, guard.kept_directory)
    there = {name: answers[look] for name, answers in ask_all(executor, dict.fromkeys(hosts, (look,))).items()}
    unasked = {name: excuse(one) for name, one in there.items() if one.exit_status not in (0, 1)}
    argv = guard.list()
    asked = {name: (argv,) for name, one in there.items() if name not in unasked and one.exit_status == 0}
    held: list[Listed] = []
    for name, answers in ask_all(executor, asked).items():
        try:
            held += _listed(guard, answers[argv])
        except ChangeError as exc:
            unasked[name] = quoted(str(exc).removeprefix(f"{name}: "))
    live = sorted((one for one in held if one.may_be_live), key=lambda one: one.running)
    return GuardsAsked(tuple(live), unasked)


def _listed(guard: Guard, answer: HostAnswer) -> tuple[Listed, ...]:
    if answer.lost:
        raise ChangeError(answer.lost)
    return guard.read_list(answer)


def findings(asked: GuardsAsked, inventory: Inventory, *, altering: Iterable[str]) -> Iterator[Finding]:
    """
    Yield a finding for each held change and each host that was not asked, for people who look before they measure.

    A host that cannot be asked is UNKNOWN where a change of the scenario is to be held there (*altering*); elsewhere it
    is a WARNING.
    """
    for one in asked.held:
        yield problem(in_words(one), _WHY, _advice([one], inventory), one.host)
    for name, why in asked.unasked.items():
        tell = unknown if name in altering else warning
        what = f"whether a change is held here was not said: {why}"
        yield tell(what, "one that was left behind looks like a fault", "sh there as root", name)


def in_words(one: Listed) -> str:
    """Return which change it is, who made it, and its state; the host is not named."""
    return f"change {quoted(one.guard_id)} of {quoted(one.owner)} is {one.state}, {_how(one)}"


def _how(one: Listed) -> str:
    if one.running:
        return f"{one.left_s:.0f} s left: its run goes on, or ended a moment ago"
    if not one.same_boot:
        return "0 s left: the host has started anew since, and no guard undoes it"
    if not one.alive:
        return f"{one.left_s:.0f} s left: its guard is dead, and nobody undoes it"
    return "0 s left: its guard " + ("tries to undo it and cannot" if one.state == "stuck" else "undoes it now")


def refuse_held(asked: GuardsAsked, inventory: Inventory) -> None:
    """Raise MayBeLive, which names every held change: nothing is measured on a fabric that somebody has altered."""
    if not asked.held:
        return
    named = first_of([f"{one.host}: {in_words(one)}" for one in asked.held], MOST_NAMED, "; ")
    raise MayBeLive(f"nothing was measured. {named}; {_advice(asked.held, inventory)}")


def unasked_note(asked: GuardsAsked) -> str:
    """Return one line that says which hosts could not be asked; empty when all could."""
    if not asked.unasked:
        return ""
    why = next(iter(asked.unasked.values()))
    return f"whether a change is still held could not be asked of {some(list(asked.unasked))} ({why})"


def _advice(held: Sequence[Listed], inventory: Inventory) -> str:
    restore = f"fabric restore --all-hosts --inventory {inventory.source}"
    if all(one.running for one in held):
        return f"wait for that run to end, or end it (fabric stop); if it is dead, its guard undoes this: or {restore}"
    return f"take it back: {restore}"
