"""Sets keys on the switches of a RoCE fabric: each switch with NVUE by itself, by a commit that must be confirmed.

The commit is confirmed only after the switch itself was seen to have the new values. If we die before that, the switch
rolls back by its own timer, beside our guard. The undo sets these keys back, or unsets them, as they were seen. It
never applies an older revision, so that whatever somebody else committed meanwhile stays.

A ``Look`` reads the keys of one sort of setting; the one here is of adaptive routing. A guard's steps are commands. A
step that depends on the result of the one before is a verb of one constant text for POSIX sh, in which values only ever
arrive as positional parameters.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from shlex import join

from fabric.changes import one_line
from fabric.changes.kind import Context, KeyProblem
from fabric.changes.procedure import Procedure, T
from fabric.errors import NotInForce, Refused, ToolError
from fabric.model.change import Alteration, Alterations, Argv, Check
from fabric.model.fields.folded import some
from fabric.model.topology import Switch
from fabric.tools import nvue
from fabric.tools.nvue import Setting

CONFIRM_MIN = 2
"""Minutes after which an unconfirmed commit is rolled back (choice: the guard's usual lease is one minute)."""

COMMIT_S = 10.0
"""Average time for all steps on one switch (seconds; choice). Switches follow each other, all under one lease."""

LOOK_S = 30.0
"""Deadline of one question to a switch (seconds; choice: its daemon answers in one or two)."""


_TEXT = one_line("nvue.sh")


@dataclass(frozen=True, slots=True)
class SwitchKey:
    """A *setting* of a switch as it is now, called *what*; *explicit*: it was set, and is not the default."""

    what: str
    setting: Setting
    explicit: bool
    checks: tuple[Check, ...]
    """The checks that show that the setting is back."""

    @property
    def back(self) -> str:
        """The verb of the shell text that restores it."""
        return "set" if self.explicit else "unset"


Look = Callable[[str, Context], Procedure[tuple[SwitchKey, ...]]]
"""Reads the keys of a switch (its name); raises Refused where they must not be altered."""


def prepare_switches(change_id: str, context: Context, look: Look, *, on: bool) -> Procedure[Alterations]:
    """Return one Alteration for each switch with a key that is not *on* as wanted; none when all are."""
    found = []
    for name in _need_configurable(context):
        others = [one for one in (yield from look(name, context)) if one.setting.on != on]
        if others:
            yield from _need_clean(name, context)
            found.append(_alteration(name, others, change_id))
    _need_time(len(found), context)
    return tuple(found)


def confirm_switches(alterations: Alterations, context: Context, look: Look, *, on: bool) -> Procedure[None]:
    """Check that every key of every altered switch is as wanted; raises NotInForce."""
    for alteration in alterations:
        try:
            seen = yield from look(alteration.host, context)
        except Refused as exc:
            raise NotInForce(str(exc)) from exc
        for one in seen:
            if one.setting.on != on:
                raise NotInForce(f"{alteration.host}: {one.what} is {one.setting}")


def routing(name: str, context: Context, *, on: bool) -> Procedure[tuple[SwitchKey, ...]]:
    """Read whether a switch routes adaptively; Refused if switching it *on* would change nothing."""
    before = yield from _asked(name, context, nvue.show(), nvue.read)
    configured = yield from _asked(name, context, nvue.COMMANDS, nvue.read_commands)
    if on and not configured.interfaces:
        raise Refused(
            f"{name}: no interface has adaptive routing on, so that switching it on would change nothing "
            f"(nv set interface <uplinks> router adaptive-routing {before.turned(on=True)})"
        )
    checks = (Check(nvue.show(), (nvue.equals(before),)),)
    return (SwitchKey("adaptive routing", before, configured.whole is not None, checks),)


def confirm_routing(alterations: Alterations, context: Context, *, on: bool) -> Procedure[None]:
    """Check that every switch is as wanted and, with it on, also every interface that is configured for it."""
    for alteration in alterations:
        name = alteration.host
        there = yield from _asked(name, context, nvue.show(), nvue.read)
        if there.on != on:
            raise NotInForce(f"{name}: adaptive routing is {there}")
        configured = yield from _asked(name, context, nvue.COMMANDS, nvue.read_commands)
        for interface in configured.interfaces if on else ():
            port = yield from _asked(name, context, nvue.show(interface), nvue.read)
            if not port.on:
                raise NotInForce(f"{name}: adaptive routing of {interface} is {port}")


def switches(context: Context) -> list[Switch]:
    """Return the switches that route: every leaf and spine."""
    return [one for one in context.topology.switches.values() if one.tier in ("leaf", "spine")]


def wrong_scope(context: Context, what: str) -> Iterator[KeyProblem]:
    """Yield a problem for switches whose login or management the inventory lacks; *what* is to be switched on them."""
    mute = [one.name for one in switches(context) if one.login is None or one.login.management is None]
    if mute or not switches(context):
        text = f"to switch {what} of a RoCE fabric {some(mute) if mute else 'its switches'} need "
        yield ("scope",), text + "'address' and 'management: nvue' under switches:"


def _need_configurable(context: Context) -> tuple[str, ...]:
    """Return the names of every leaf and spine; Refused if one cannot or must not be altered: all or none."""
    routing = switches(context)
    mute = [one.name for one in routing if one.login is None or one.login.management != "nvue"]
    if mute or not routing:
        raise Refused(
            f"{some(mute) if mute else 'the fabric'}: of RoCE switches each is told for itself, and the inventory says "
            "neither where nor how (switches: address, management: nvue)"
        )
    kept = {name.casefold() for name in context.settings.management}
    held = next((one.name for one in routing if one.name.casefold() in kept), None)
    if held is not None:
        raise Refused(f"{held} is for management (changes: management in the inventory)")
    return tuple(one.name for one in routing)


def _need_time(count: int, context: Context) -> None:
    ttl_s, takes_s = context.settings.lease.ttl_s, count * COMMIT_S
    if takes_s > ttl_s:
        raise Refused(
            f"{count} switches one after the other take about {takes_s:.0f} s, and the lease lasts {ttl_s:.0f} s "
            "(changes: lease: ttl in the inventory, up to 10m)"
        )


def _asked(name: str, context: Context, argv: Argv, read: Callable[..., T]) -> Procedure[T]:
    """Ask a switch, and return its answer as *read* understands it."""
    answer = yield from context.look(name, argv, timeout_s=LOOK_S)
    with errors_naming(name):
        return read(*answer)


def _need_clean(name: str, context: Context) -> Procedure[None]:
    """Raise Refused if this account has unapplied edits: our commit would carry somebody's work along."""
    lines = yield from _asked(name, context, nvue.PENDING, nvue.read_pending)
    if lines:
        raise Refused(
            f"{name}: this account has edits that were not applied ({' '.join(' '.join(lines).split())[:120]}); apply "
            "them or drop them first (nv config diff, nv config apply, nv config detach)"
        )


@contextmanager
def errors_naming(name: str) -> Iterator[None]:
    """Put the switch's name in front of errors of the tool."""
    try:
        yield
    except ToolError as exc:
        raise type(exc)(f"{name}: {exc}") from exc


def _alteration(name: str, others: list[SwitchKey], change_id: str) -> Alteration:
    message = f"fabric {sha256(change_id.encode()).hexdigest()[:12]}"
    path = others[0].setting.path
    wanted = [one.setting.turned(on=not one.setting.on) for one in others]
    back = [nvue.stage_set(one.setting) if one.explicit else nvue.stage_unset(one.setting) for one in others]
    settings = ", ".join(f"{one.setting}" + ("" if one.explicit else " by default") for one in others)
    return Alteration(
        host=name,
        apply=(
            shell("clean", path),
            *map(nvue.stage_set, wanted),
            nvue.apply(message, confirm_min=CONFIRM_MIN),
            *(shell("seen", path, one.key, one.value, "set") for one in wanted),
            nvue.CONFIRM,
        ),
        undo=(
            *(shell("stage", path, one.setting.key, one.setting.value, one.back) for one in others),
            shell("commit", path, f"{message} undone"),
        ),
        checks=tuple(check for one in others for check in one.checks),
        prior=f"{name}: {others[0].what} {settings}",
        manual=f"{' && '.join(map(join, back))} && nv config apply -y",
        outlives=True,
    )


def shell(verb: str, path: tuple[str, ...], *words: str) -> Argv:
    """Return a call of a verb of ``sh/nvue.sh`` for a key below *path*."""
    return ("sh", "-c", _TEXT, "fabric-nvue", verb, " ".join(path), *words)
