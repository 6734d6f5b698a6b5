"""
Adaptive routing of a RoCE fabric: each switch with NVUE is told for itself, by a commit that must be confirmed.

The commit is confirmed only after the switch itself was seen to route so. Whoever dies before that: the switch rolls
back by its own timer, beside our guard. The undo sets the one key back, or unsets it, as it was seen; it never applies
an older revision, so that whatever somebody else committed meanwhile stays.

A guard's steps are commands; where one of them depends on what the last one brought about, it is a verb of one constant
text for POSIX sh, in which values only ever arrive as positional parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from shlex import join

from fabric.changes import one_line
from fabric.changes.kind import Context
from fabric.changes.procedure import Procedure
from fabric.errors import NotInForce, Refused, ToolError
from fabric.model.change import Alteration, Argv, Check
from fabric.model.fields.folded import some
from fabric.model.topology import Switch
from fabric.tools import nvue
from fabric.tools.nvue import Configured, Setting

CONFIRM_MIN = 2
"""A commit that nobody confirms is rolled back after so long (minutes; choice: the guard's usual lease is one)."""

COMMIT_S = 10.0
"""What a switch takes for all of it, on average (seconds; choice). One follows the other, all under one lease."""

LOOK_S = 30.0
"""Deadline of one question to a switch (seconds; choice: its daemon answers in one or two)."""


_TEXT = one_line("nvue.sh")


def prepare(change_id: str, context: Context, *, on: bool) -> Procedure[tuple[Alteration, ...]]:
    """One Alteration for each switch that routes otherwise; none when all do so already."""
    found = []
    for name in _need_told(context):
        before = yield from _seen(name, context)
        configured = yield from _configured(name, context)
        if on and not configured.interfaces:
            raise Refused(
                f"{name}: no interface has adaptive routing on, so that switching it on would change nothing "
                f"(nv set interface <uplinks> router adaptive-routing {before.turned(on=True)})"
            )
        if before.on == on:
            continue
        yield from _need_clean(name, context)
        found.append(_alteration(name, before, configured, change_id))
    _need_time(len(found), context)
    return tuple(found)


def confirm(alterations: tuple[Alteration, ...], context: Context, *, on: bool) -> Procedure[None]:
    """Every switch says so; with it on, every interface that is set to it as well."""
    for alteration in alterations:
        name = alteration.host
        there = yield from _seen(name, context)
        if there.on != on:
            raise NotInForce(f"{name}: adaptive routing is {there}")
        configured = yield from _configured(name, context)
        for interface in configured.interfaces if on else ():
            port = yield from _seen(name, context, interface)
            if not port.on:
                raise NotInForce(f"{name}: adaptive routing of {interface} is {port}")


def switches(context: Context) -> list[Switch]:
    """Those that route: every leaf and spine."""
    return [one for one in context.topology.switches.values() if one.tier in ("leaf", "spine")]


def _need_told(context: Context) -> tuple[str, ...]:
    """Every leaf and spine; Refused where one cannot be told, or must not be: half a fabric is no answer."""
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


def _seen(name: str, context: Context, interface: str | None = None) -> Procedure[Setting]:
    said = yield from context.look(name, nvue.show(interface), timeout_s=LOOK_S)
    with _on(name):
        return nvue.read(*said)


def _configured(name: str, context: Context) -> Procedure[Configured]:
    said = yield from context.look(name, nvue.commands(), timeout_s=LOOK_S)
    with _on(name):
        return nvue.read_commands(*said)


def _need_clean(name: str, context: Context) -> Procedure[None]:
    """A commit takes along whatever this account has set; that is somebody's work, not ours."""
    said = yield from context.look(name, nvue.pending(), timeout_s=LOOK_S)
    with _on(name):
        lines = nvue.read_pending(*said)
    if lines:
        raise Refused(
            f"{name}: this account has edits that were not applied ({' '.join(' '.join(lines).split())[:120]}); apply "
            "them or drop them first (nv config diff, nv config apply, nv config detach)"
        )


@contextmanager
def _on(name: str) -> Iterator[None]:
    """Errors of the tool name the switch."""
    try:
        yield
    except ToolError as exc:
        raise type(exc)(f"{name}: {exc}") from exc


def _alteration(name: str, before: Setting, configured: Configured, change_id: str) -> Alteration:
    wanted = before.turned(on=not before.on)
    explicit = configured.whole is not None
    message = f"fabric {sha256(change_id.encode()).hexdigest()[:12]}"
    back = nvue.put(before) if explicit else nvue.drop(before.key)
    return Alteration(
        host=name,
        apply=(
            shell("clean"),
            nvue.put(wanted),
            nvue.apply(message, confirm_min=CONFIRM_MIN),
            shell("seen", wanted.key, wanted.value),
            nvue.confirm(),
        ),
        undo=(
            shell("stage", before.key, before.value, "set" if explicit else "unset"),
            shell("commit", f"{message} undone"),
        ),
        checks=(Check(nvue.show(), (nvue.equals(before),)),),
        prior=f"{name}: adaptive routing {before}" + ("" if explicit else " by default"),
        manual=f"{join(back)} && nv config apply -y",
        outlives=True,
    )


def shell(verb: str, *words: str) -> Argv:
    """Have a verb of ``sh/nvue.sh`` carried out."""
    return ("sh", "-c", _TEXT, "fabric-nvue", verb, *words)
