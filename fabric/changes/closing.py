"""The four ways to close a port: what each runs, how it is undone, and how its state is read."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.changes.kind import Context
from fabric.changes.look import look, plainly, program
from fabric.changes.ports import AdapterEnd, Cable, End, SwitchEnd, ethernet
from fabric.changes.procedure import Procedure
from fabric.changes.reach import end_to_close, refuse_our_way
from fabric.errors import Refused
from fabric.model.change import Alteration, Argv, Check
from fabric.tools import ibportstate, ip_link, mlxlink, mlxreg, sysfs

WAYS = ("ibportstate", "mlxlink", "mlxreg", "ip")

_PAOS_PHYSICAL = {2: "Polling", 3: "Disabled", 5: "LinkUp", 6: "LinkErrorRecovery"}
_NOT_CLOSED = '"Physical state" *: *"[A-CE-Z]'
"""mlxlink's JSON of a port that is neither Disabled nor Down; its words between those and LinkUp differ by version."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A port as some tool saw it; *closed*: somebody closed it."""

    text: str
    up: bool
    closed: bool

    def __str__(self) -> str:
        return self.text


def closing(by: str, cable: Cable, context: Context) -> Procedure[Alteration]:
    """
    What closes a cable with one of WAYS: its switch end from ``via`` with ibportstate, else its RNIC's end.

    Raises Refused where that cannot be done, could not be undone, or the link is down already.
    """
    if by == "ibportstate":
        return (yield from _in_band(cable, context))
    if by not in WAYS:
        raise Refused(f"{cable.component}: ports are closed by {', '.join(WAYS)}, not by {by}")
    if isinstance(cable.lower, SwitchEnd):
        raise Refused(
            f"{cable.component}: {by} numbers the ports of a switch in its own way; cables between switches are closed "
            "by ibportstate"
        )
    yield from refuse_our_way(cable, context)
    if by == "mlxlink":
        return (yield from _by_mlxlink(cable, cable.lower, context))
    if by == "mlxreg":
        return (yield from _by_mlxreg(cable, cable.lower, context))
    return (yield from _by_ip(cable, cable.lower, context))


def seen_closed(by: str, alteration: Alteration, end: End, context: Context) -> Procedure[Seen]:
    """The end that an Alteration closes, as the tool that closes it says."""
    if isinstance(end, SwitchEnd):
        return (yield from seen_end(end, context))
    if by == "mlxreg":
        fields = mlxreg.read(*(yield from look(context, end.host, alteration.checks[0].argv)))
        physical = mlxreg.need(fields, "physical_state_status")
        text = f"PAOS admin_status {fields.get('admin_status')}, {_PAOS_PHYSICAL.get(physical, physical)}"
        return Seen(text, up=physical == 5, closed=physical == 3)
    return (yield from _seen_by_mlxlink(end, context))


def seen_end(end: End, context: Context) -> Procedure[Seen]:
    """An end as the fabric (a switch's) or its own host's kernel (an RNIC's) sees it."""
    if isinstance(end, AdapterEnd):
        state = sysfs.read_port_state(*(yield from plainly(end.host, sysfs.port_state(end.device, end.port))))
        return Seen(str(state), up=state.physical_state == "LinkUp", closed=state.physical_state == "Disabled")
    port = yield from _queried(end, context)
    return Seen(str(port), up=port.physical_state == "LinkUp", closed=port.disabled)


def active(end: End, context: Context) -> Procedure[Seen]:
    """The same, with *up* only when traffic passes (Active, not merely LinkUp)."""
    if isinstance(end, AdapterEnd):
        state = sysfs.read_port_state(*(yield from plainly(end.host, sysfs.port_state(end.device, end.port))))
        return Seen(str(state), up=state.active, closed=False)
    port = yield from _queried(end, context)
    return Seen(str(port), up=port.active, closed=port.disabled)


def _in_band(cable: Cable, context: Context) -> Procedure[Alteration]:
    """``on`` opens a closed port and leaves an open one alone; ``enable`` would take an open link down once more."""
    if ethernet(cable.component, context):
        raise Refused(f"{cable.component}: ibportstate closes InfiniBand ports only (by: mlxlink, mlxreg or ip)")
    end = yield from end_to_close(cable, context)
    via = context.settings.via
    assert via is not None
    tool = program(context, via, "ibportstate")
    port = yield from _queried(end, context)
    if not port.active:
        raise Refused(f"{cable.component}: {end} is {port} already")
    lower = cable.lower
    return Alteration(
        host=via,
        apply=(ibportstate.by_lid(end.lid, end.port, "disable", tool=tool),),
        undo=(ibportstate.by_lid(end.lid, end.port, "on", tool=tool),),
        checks=(Check(ibportstate.by_lid(end.lid, end.port, tool=tool), (ibportstate.NOT_DISABLED,)),),
        prior=_prior(end, str(port), cable.upper if end == lower else lower),
        devices=(lower.device,) if isinstance(lower, AdapterEnd) and lower.host == via else (),
        outlives=True,
    )


def _by_mlxlink(cable: Cable, end: AdapterEnd, context: Context) -> Procedure[Alteration]:
    tool = program(context, end.host, "mlxlink")
    seen = yield from _seen_by_mlxlink(end, context)
    _need_up(cable, end, seen)
    return _on_host(
        cable,
        end,
        seen,
        apply=mlxlink.port_state(end.device, up=False, tool=tool),
        undo=mlxlink.port_state(end.device, up=True, tool=tool),
        check=Check(mlxlink.show(end.device, tool=tool), (_NOT_CLOSED,)),
    )


def _by_mlxreg(cable: Cable, end: AdapterEnd, context: Context) -> Procedure[Alteration]:
    tool, indexes = program(context, end.host, "mlxreg"), mlxreg.paos_indexes(1)
    get = mlxreg.get(end.device, "PAOS", indexes, tool=tool)
    fields = mlxreg.read(*(yield from look(context, end.host, get)))
    admin = mlxreg.need(fields, "admin_status")
    physical = mlxreg.need(fields, "physical_state_status")
    seen = Seen(f"PAOS admin_status {admin}, {_PAOS_PHYSICAL.get(physical, physical)}", physical == 5, physical == 3)
    _need_up(cable, end, seen)
    return _on_host(
        cable,
        end,
        seen,
        apply=mlxreg.write(end.device, "PAOS", indexes, mlxreg.paos_values(mlxreg.PAOS_DOWN), tool=tool),
        undo=mlxreg.write(end.device, "PAOS", indexes, mlxreg.paos_values(admin), tool=tool),
        check=Check(get, (mlxreg.equals("admin_status", admin),)),
    )


def _by_ip(cable: Cable, end: AdapterEnd, context: Context) -> Procedure[Alteration]:
    """The kernel's own switch, which closes the port only where the firmware does not keep the link up (RoCE)."""
    if not ethernet(cable.component, context):
        raise Refused(f"{cable.component}: ip link closes no InfiniBand port (by: ibportstate, mlxlink or mlxreg)")
    tool = program(context, end.host, "ip")
    name = sysfs.read_netdev(*(yield from plainly(end.host, sysfs.netdev(end.device, end.port))))
    show = ip_link.show(name, tool=tool)
    found = ip_link.read(*(yield from plainly(end.host, show)))[0]
    seen = Seen(f"{found.name} {found.state}", up=found.up and found.carrier, closed=not found.up)
    _need_up(cable, end, seen)
    return _on_host(
        cable,
        end,
        seen,
        apply=ip_link.switch(name, up=False, tool=tool),
        undo=ip_link.switch(name, up=True, tool=tool),
        check=Check(show, (ip_link.switched_on(name),)),
    )


def _on_host(cable: Cable, end: AdapterEnd, seen: Seen, *, apply: Argv, undo: Argv, check: Check) -> Alteration:
    prior = _prior(end, seen.text, cable.upper)
    return Alteration(end.host, (apply,), (undo,), (check,), prior, devices=(end.device,))


def _prior(end: End, state: str, other: End | None) -> str:
    """What was seen, with both ends named as ``fabric.changes.ports.end_named`` reads them back."""
    return f"{end}: {state}" + ("" if other is None else f"; other end {other}")


def _need_up(cable: Cable, end: End, seen: Seen) -> None:
    if not seen.up:
        raise Refused(f"{cable.component}: {end} is down already ({seen})")


def _queried(end: SwitchEnd, context: Context) -> Procedure[ibportstate.PortInfo]:
    via = context.settings.via
    if via is None:
        raise Refused("switches are reached from a host of the fabric, and the inventory names none (changes: via)")
    argv = ibportstate.by_lid(end.lid, end.port, tool=program(context, via, "ibportstate"))
    return ibportstate.read(*(yield from look(context, via, argv))).port


def _seen_by_mlxlink(end: AdapterEnd, context: Context) -> Procedure[Seen]:
    argv = mlxlink.show(end.device, tool=program(context, end.host, "mlxlink"))
    link = mlxlink.read(*(yield from look(context, end.host, argv)))
    closed = link.physical_state.startswith("Disable") or link.state.startswith("Disable")
    return Seen(f"{link.state}/{link.physical_state}", up=link.up, closed=closed)
