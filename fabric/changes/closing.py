"""The three ways to close a port: what each runs, how it is undone, and how a closed port is seen."""

from fabric.changes.kind import Context
from fabric.changes.ports import CablePorts, end_to_close, refuse_our_way, seen_end
from fabric.changes.procedure import Procedure, Text, plainly
from fabric.errors import Refused
from fabric.model.change import AdapterEnd, Alteration, Argv, Check, End, SwitchEnd
from fabric.tools import infiniband, interfaces, mlxlink, sysfs
from fabric.tools.infiniband import PortState
from fabric.tools.interfaces import Interface

NVIDIA = "0x15b3"
"""PCI vendor of adapters whose firmware may keep a port up that the kernel has closed, which only mlxlink shows."""

_NOT_CLOSED = '"State" *: *"[A-CE-Z]'
"""Matches mlxlink's JSON for a port that is not Disable; on Ethernet the physical state does not show that."""


def closing_alteration(by: str, cable: CablePorts, context: Context) -> Procedure[Alteration]:
    """
    Return the Alteration that closes a cable by a ``PortTool``: its switch end by ibportstate, else its RNIC's end.

    Raises Refused when that cannot be done, could not be undone, the link is down already, or firmware keeps it up.
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
    seen, apply, undo, checks = yield from way(end, context)
    if not seen.up:
        raise Refused(f"{cable.component}: {end} is down already ({seen})")
    yield from _refuse_kept_up(by, end, context)
    ends = _ends(end, cable.upper)
    return Alteration(end.host, (apply,), undo, checks, _prior(seen, *ends), devices=(end.device,), ends=ends)


def seen_closed(end: End, context: Context) -> Procedure[PortState]:
    """
    Return the state of the closed end: a switch's as the fabric sees it, an RNIC's as mlxlink sees it.

    Soft RoCE and adapters of other makers have no mlxlink: there the kernel's word counts. Raises ToolError for one of
    NVIDIA's without mlxlink.
    """
    if isinstance(end, AdapterEnd):
        answer = yield from context.look(end.host, mlxlink.show(end.device))
        vendor = (yield from plainly(end.host, sysfs.vendor(end.device)))[0].strip() if _absent(answer) else NVIDIA
        if vendor == NVIDIA:
            return mlxlink.read(*answer)
    return (yield from seen_end(end, context))


def _in_band(cable: CablePorts, context: Context) -> Procedure[Alteration]:
    """Close the switch end. The undo is ``on``: unlike ``enable``, it leaves a port alone that is open already."""
    if context.ethernet(cable.component):
        raise Refused(f"{cable.component}: ibportstate closes InfiniBand ports only (by: mlxlink or ip)")
    end = yield from end_to_close(cable, context)
    via, words = context.need_via(), context.in_band()
    look_again = infiniband.port_info(end.lid, end.port, through=words)
    port = yield from seen_end(end, context)
    if not port.active:
        raise Refused(f"{cable.component}: {end} is {port} already")
    ends = _ends(end, cable.upper if end == cable.lower else cable.lower)
    return Alteration(
        host=via,
        apply=(infiniband.port(end.lid, end.port, up=False, through=words),),
        undo=(infiniband.port(end.lid, end.port, up=True, through=words),),
        checks=(Check(look_again, (infiniband.NOT_DISABLED,)),),
        prior=_prior(port, *ends),
        devices=cable.devices_of(via),
        outlives=True,
        ends=ends,
    )


_Way = Procedure[tuple[PortState | Interface, Argv, tuple[Argv, ...], tuple[Check, ...]]]
"""The state, the command that closes, the commands that undo it, and the checks that show the undo."""


def _by_mlxlink(end: AdapterEnd, context: Context) -> _Way:
    show = mlxlink.show(end.device)
    seen = mlxlink.read(*(yield from context.look(end.host, show)))
    apply, undo = (mlxlink.port_state(end.device, up=up) for up in (False, True))
    return seen, apply, (undo,), (Check(show, (_NOT_CLOSED,)),)


def _by_ip(end: AdapterEnd, context: Context) -> _Way:
    """
    Close by the kernel's own switch, which works only if the firmware does not keep the link up (RoCE).

    When the interface goes down, the kernel forgets its static routes and IPv6 addresses: the undo gives them back.
    """
    if not context.ethernet(end.name):
        raise Refused(f"{end.name}: ip link closes no InfiniBand port (by: ibportstate or mlxlink)")
    name = sysfs.read_netdev(*(yield from plainly(end.host, sysfs.netdev(end.device, end.port))))
    show = interfaces.show(name)
    seen = interfaces.read(*(yield from plainly(end.host, show)))[0]
    apply, undo = (interfaces.switch(name, up=up) for up in (False, True))
    back, checks = [undo], [Check(show, (interfaces.switched_on(name),))]
    for what in interfaces.LOST_WHEN_OFF:
        asked = interfaces.show_lost(name, what)
        there = interfaces.read_lost(what, *(yield from plainly(end.host, asked)))
        back += [interfaces.restore_lost(name, what, words) for words in there]
        checks += [Check(asked, tuple(map(interfaces.printed_pattern, there)))] if there else []
    return seen, apply, tuple(back), tuple(checks)


def _ends(closed: End, other: End | None) -> tuple[End, ...]:
    return (closed,) if other is None else (closed, other)


def _prior(seen: PortState | Interface, closed: End, *other: End) -> str:
    """Return what was seen, for people."""
    return "; other end ".join((f"{closed}: {seen}", *map(str, other)))


def _absent(answer: Text) -> bool:
    """Return whether a program is not there; sudo exits with 1 then."""
    return answer[2] == 127 or (answer[2] != 0 and "command not found" in answer[1])


def _refuse_kept_up(by: str, end: AdapterEnd, context: Context) -> Procedure[None]:
    """
    Raise Refused when the firmware keeps this port up, ToolError when its setting cannot be read.

    Needed for tools that close the RNIC's own end (mlxlink, ip): a switch closes its end without the RNIC. Without
    mlxconfig nothing is known, and the read-back after the change decides.
    """
    setting = mlxlink.keep_link_up(ethernet=context.ethernet(end.name), port=end.port)
    argv = mlxlink.ask_setting(end.device, setting)
    answer = yield from context.look(end.host, argv)
    if _absent(answer):
        return
    if mlxlink.read_setting(setting, *answer):
        raise Refused(
            f"{end}: the firmware keeps its link up ({setting}), so that {by} would close nothing: mlxconfig -d "
            f"{end.device} set {setting}=0, then reset the adapter (mlxfwreset) or reboot; or close it at the switch"
        )
