"""The three ways to close a port: what each runs, how it is undone, and how its state is read until it is up again."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.changes.kind import Context
from fabric.changes.ports import (
    AdapterEnd,
    CableEnd,
    End,
    SwitchEnd,
    end_to_close,
    ethernet,
    in_band,
    look,
    need_via,
    plainly,
    program,
    refuse_our_way,
)
from fabric.changes.procedure import Procedure, pause
from fabric.errors import ExecutorError, MayBeLive, Refused, ToolError
from fabric.model.change import Alteration, Argv, Check
from fabric.tools import infiniband, interfaces, mlxlink, sysfs

POLL_S = 0.5
"""How often an end is asked while it changes (seconds; choice)."""

_NOT_FOUND = 127
_NOT_CLOSED = '"State" *: *"[A-CE-Z]'
"""mlxlink's JSON of a port that is not Disable; on Ethernet the physical state says nothing of it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A port as some tool saw it; *closed*: somebody closed it; *active*: traffic passes, if it was looked at."""

    text: str
    up: bool
    closed: bool
    active: bool = False

    def __str__(self) -> str:
        return self.text


def closing(by: str, cable: CableEnd, context: Context) -> Procedure[Alteration]:
    """
    What closes a cable with one of PORT_TOOLS: its switch end from ``via`` with ibportstate, else its RNIC's end.

    Raises Refused where that cannot be done, could not be undone, or the link is down already.
    """
    if by == "ibportstate":
        return (yield from _in_band(cable, context))
    if isinstance(cable.lower, SwitchEnd):
        raise Refused(
            f"{cable.component}: {by} numbers the ports of a switch in its own way; cables between switches are closed "
            "by ibportstate"
        )
    end = cable.lower
    yield from refuse_our_way(cable, context)
    way = _by_mlxlink if by == "mlxlink" else _by_ip
    seen, apply, undo, check = yield from way(end, context)
    if not seen.up:
        raise Refused(f"{cable.component}: {end} is down already ({seen})")
    prior = _prior(end, seen.text, cable.upper)
    return Alteration(end.host, (apply,), (undo,), (check,), prior, devices=(end.device,))


def seen_closed(end: End, context: Context) -> Procedure[Seen]:
    """The end that is closed, as the tool that closes it says."""
    return (yield from (seen_end(end, context) if isinstance(end, SwitchEnd) else _seen_by_mlxlink(end, context)))


def seen_end(end: End, context: Context) -> Procedure[Seen]:
    """An end as the fabric (a switch's) or its own host's kernel (an RNIC's) sees it."""
    if isinstance(end, AdapterEnd):
        port = sysfs.read_port_state(*(yield from plainly(end.host, sysfs.port_state(end.device, end.port))))
    else:
        port = yield from _queried(end, context)
    return Seen(str(port), port.up, port.disabled, port.active)


def _in_band(cable: CableEnd, context: Context) -> Procedure[Alteration]:
    """``on`` opens a closed port and leaves an open one alone; ``enable`` would take an open link down once more."""
    if ethernet(cable.component, context):
        raise Refused(f"{cable.component}: ibportstate closes InfiniBand ports only (by: mlxlink or ip)")
    end = yield from end_to_close(cable, context)
    via, words = need_via(context), in_band(context)
    tool = program(context, via, "ibportstate")
    look_again = infiniband.port_info(end.lid, end.port, through=words, tool=program(context, via, "smpquery"))
    port = yield from _queried(end, context)
    if not port.active:
        raise Refused(f"{cable.component}: {end} is {port} already")
    lower = cable.lower
    return Alteration(
        host=via,
        apply=(infiniband.port(end.lid, end.port, "disable", through=words, tool=tool),),
        undo=(infiniband.port(end.lid, end.port, "on", through=words, tool=tool),),
        checks=(Check(look_again, (infiniband.NOT_DISABLED,)),),
        prior=_prior(end, str(port), cable.upper if end == lower else lower),
        devices=(lower.device,) if isinstance(lower, AdapterEnd) and lower.host == via else (),
        outlives=True,
    )


_Way = Procedure[tuple[Seen, Argv, Argv, Check]]
"""What is there, what closes it, what opens it again, and how to see that it is open."""


def _by_mlxlink(end: AdapterEnd, context: Context) -> _Way:
    tool = program(context, end.host, "mlxlink")
    seen = yield from _seen_by_mlxlink(end, context)
    apply, undo = (mlxlink.port_state(end.device, up=up, tool=tool) for up in (False, True))
    return seen, apply, undo, Check(mlxlink.show(end.device, tool=tool), (_NOT_CLOSED,))


def _by_ip(end: AdapterEnd, context: Context) -> _Way:
    """The kernel's own switch, which closes the port only where the firmware does not keep the link up (RoCE)."""
    if not ethernet(end.name, context):
        raise Refused(f"{end.name}: ip link closes no InfiniBand port (by: ibportstate or mlxlink)")
    tool = program(context, end.host, "ip")
    name = sysfs.read_netdev(*(yield from plainly(end.host, sysfs.netdev(end.device, end.port))))
    show = interfaces.show(name, tool=tool)
    found = interfaces.read(*(yield from plainly(end.host, show)))[0]
    seen = Seen(f"{found.name} {found.state}", up=found.up and found.carrier, closed=not found.up)
    apply, undo = (interfaces.switch(name, up=up, tool=tool) for up in (False, True))
    return seen, apply, undo, Check(show, (interfaces.switched_on(name),))


def _prior(end: End, state: str, other: End | None) -> str:
    """What was seen, with both ends named as ``fabric.changes.ports.end_named`` reads them back."""
    return f"{end}: {state}" + ("" if other is None else f"; other end {other}")


def _queried(end: SwitchEnd, context: Context) -> Procedure[infiniband.PortState]:
    via = need_via(context)
    tool = program(context, via, "smpquery")
    argv = infiniband.port_info(end.lid, end.port, through=in_band(context), tool=tool)
    return infiniband.read_port(*(yield from look(context, via, argv)))


def _seen_by_mlxlink(end: AdapterEnd, context: Context) -> Procedure[Seen]:
    argv = mlxlink.show(end.device, tool=program(context, end.host, "mlxlink"))
    link = mlxlink.read(*(yield from look(context, end.host, argv)))
    closed = link.physical_state.startswith("Disable") or link.state.startswith("Disable")
    return Seen(f"{link.state}/{link.physical_state}", up=link.up, closed=closed)


def refuse_kept_up(by: str, end: AdapterEnd, context: Context) -> Procedure[None]:
    """
    Raise Refused when the firmware keeps this port up, ToolError when what it says cannot be read.

    Of ways that close the RNIC's own end (mlxlink, ip): a switch that closes its end does not ask the RNIC.
    Where there is no mlxconfig, nothing is known: then what is read back after the change decides.
    """
    setting = mlxlink.keep_link_up(ethernet=ethernet(end.name, context), port=end.port)
    argv = mlxlink.ask_setting(end.device, setting, tool=program(context, end.host, "mlxconfig"))
    said = yield from look(context, end.host, argv)
    if said[2] == _NOT_FOUND or (said[2] != 0 and "command not found" in said[1]):  # sudo says 1 of what is not there
        return
    if mlxlink.read_setting(setting, *said):
        raise Refused(
            f"{end}: the firmware keeps its link up ({setting}), so that {by} would close nothing: mlxconfig -d "
            f"{end.device} set {setting}=0, then reset the adapter (mlxfwreset) or reboot; or close it at the switch"
        )


def until_active(end: End, context: Context, until_s: float) -> Procedure[float]:
    """
    Ask an end until it is Active; returns the time (executor's seconds).

    While routes change a question may well be lost, so an error is an answer like "not yet". Raises MayBeLive with what
    was seen last when it is *until_s*.
    """
    now_s = yield from pause(0.0)
    while True:
        try:
            seen = yield from seen_end(end, context)
            if seen.active:
                return (yield from pause(0.0))
            text = seen.text
        except (ToolError, ExecutorError) as exc:
            text = str(exc).partition("\n")[0]
        if now_s >= until_s:
            raise MayBeLive(f"{end} was put back and does not come up: {text}")
        now_s = yield from pause(min(now_s + POLL_S, until_s))
