"""The ports at both ends of a cable, found by the cable's name: how they are reached, and what they count.

Also reads the state of a port until it is up again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fabric.changes.kind import Context
from fabric.changes.procedure import ASK_S, Procedure, awaited, plainly
from fabric.errors import MayBeLive, Refused, ToolError
from fabric.model import gathered
from fabric.model.change import AdapterEnd, End, SwitchEnd
from fabric.model.fields.wording import nearest
from fabric.model.part import Part
from fabric.tools import infiniband, mlxlink, mlxreg, sysfs
from fabric.tools.infiniband import PortLine, PortState, switch_name

FABRIC_S = 60.0
"""Deadline of a walk over the whole fabric (seconds; choice: thousands of ports take some ten)."""

Port = tuple[str, int]
"""RDMA device and port."""


@dataclass(frozen=True, slots=True)
class CablePorts:
    """
    A cable and its ends; *upper* None: the switch cannot be looked at (no ``via``, or Ethernet).

    *ends*: both ends as the fabric showed them, none where it was not looked at; *fabric*: all lines that it showed.
    """

    component: str
    lower: End
    upper: SwitchEnd | None
    ends: tuple[infiniband.End, ...] = ()
    fabric: tuple[PortLine, ...] = ()

    def devices_of(self, host: str) -> tuple[str, ...]:
        """Return the RNICs of a host that lose traffic when the cable is changed."""
        lower = self.lower
        return (lower.device,) if isinstance(lower, AdapterEnd) and lower.host == host else ()


def register(
    context: Context, host: str, device: str, name: str, indexes: mlxreg.Fields
) -> Procedure[tuple[mlxreg.Fields, mlxreg.Fields]]:
    """
    Return the INDEX fields of a register that the host's mlxreg knows, and all fields. Raises ToolError as ``look``.
    """
    while True:
        try:
            return indexes, mlxreg.read(*(yield from context.look(host, mlxreg.get(device, name, indexes))))
        except ToolError as exc:
            known = mlxreg.without_unknown(indexes, str(exc))
            if known is None:
                raise
            indexes = known


def cable_of(component: str, context: Context) -> Procedure[CablePorts]:
    """
    Find the cable called *component*: ``gpu001/mlx5_0`` or ``su0-leaf3--spine02`` (``#1`` the second parallel one).

    Raises Refused when it is not there, down, or not to be told from others; ToolError when a tool cannot be read.
    """
    if "/" in component:
        return (yield from _adapter_cable(component, context))
    return (yield from _switch_cable(component, context))


def fabric_ports(context: Context) -> Procedure[tuple[PortLine, ...]]:
    """Return every port of the fabric as ``via`` sees it; Refused when there is no ``via``."""
    via = context.need_via()
    argv = infiniband.all_ports(through=context.in_band())
    return infiniband.read_ports(*(yield from context.look(via, argv, timeout_s=FABRIC_S)))


def adapter_end(component: str, context: Context) -> AdapterEnd:
    """Return the RNIC's own end of its cable."""
    name, device = Part.of(component).place
    return AdapterEnd(name, device, context.topology.hosts[name].platform.rnic_by_device[device].port)


GONE = "gone"
"""The state of a port whose device is not there any more."""


def port_states(host: str, ports: Sequence[Port], *, timeout_s: float = ASK_S) -> Procedure[dict[Port, str]]:
    """Read the state of each RNIC port of a host by one ``cat``; if some are missing, read each port by itself."""
    answer = yield from plainly(host, sysfs.states(list(ports)), timeout_s=timeout_s)
    states = sysfs.read_states(*answer)
    if len(states) == len(ports):
        return dict(zip(ports, states, strict=True))
    found: dict[Port, str] = {}
    for port in ports if len(ports) > 1 else ():
        found |= yield from port_states(host, [port], timeout_s=timeout_s)
    return found or dict.fromkeys(ports, GONE)


def node_guid(end: AdapterEnd) -> Procedure[int]:
    """Read the GUID of an RNIC on its own host."""
    return sysfs.read_node_guid(*(yield from plainly(end.host, sysfs.node_guid(end.device))))


def line_of(fabric: Iterable[PortLine], guid: int, port: int) -> PortLine | None:
    """Return an adapter's line, which has the port's GUID: the node's own, or the node's plus the port number."""
    found = {line.end.guid: line for line in fabric if line.end.port == port}
    return found.get(guid) or found.get(guid + port)


def _adapter_cable(component: str, context: Context) -> Procedure[CablePorts]:
    lower = adapter_end(component, context)
    if context.settings.via is None or context.ethernet(component):
        return CablePorts(component, lower, None)
    fabric = yield from fabric_ports(context)
    guid = yield from node_guid(lower)
    line = line_of(fabric, guid, lower.port)
    if line is None:
        raise Refused(f"{component}: GUID 0x{guid:016x} is not in the fabric that {context.settings.via} sees")
    if line.peer is None:
        raise Refused(f"{component}: its link is down already ({line.state})")
    upper = SwitchEnd(switch_name(line.peer.description), line.peer.lid, line.peer.port)
    return CablePorts(component, lower, upper, (line.end, line.peer), fabric)


def _switch_cable(component: str, context: Context) -> Procedure[CablePorts]:
    part = Part.of(component)
    assert part.link_ends is not None, component
    one, other = part.link_ends
    wanted = sum({link.a, link.b} == {one, other} for link in context.topology.links())
    fabric = yield from fabric_ports(context)
    lower, upper = _switch_guid(one, fabric), _switch_guid(other, fabric)
    between = [(line, line.peer) for line in fabric if line.end.guid == lower and line.peer and line.peer.guid == upper]
    between.sort(key=lambda ends: ends[0].end.port)
    if len(between) < wanted or not between:
        raise Refused(
            f"{component}: of {wanted} cables between {one} and {other} {len(between)} are up: "
            "which of them is meant cannot be told"
        )
    if part.number >= len(between):
        raise Refused(f"{component}: {one} and {other} have cables #0 to #{len(between) - 1}")
    line, peer = between[part.number]
    near = SwitchEnd(one, line.end.lid, line.end.port)
    return CablePorts(component, near, SwitchEnd(other, peer.lid, peer.port), (line.end, peer), fabric)


def _switch_guid(name: str, fabric: tuple[PortLine, ...]) -> int:
    """Return the GUID of the one switch with this name, or with this GUID (``0x...``)."""
    switches = infiniband.switches(fabric)
    known = {line.end.guid: switch_name(line.end.description) for line in fabric if line.end.guid in switches}
    found = [guid for guid, called in known.items() if name in (called, f"0x{guid:016x}")]
    if len(found) > 1:
        guids = ", ".join(f"0x{guid:016x}" for guid in sorted(found))
        raise Refused(f"{len(found)} switches are called {name} ({guids}): call them by their GUIDs")
    if not found:
        near = nearest(name, sorted(set(known.values())))
        raise Refused(f"the fabric has no switch {name}{near}")
    return found[0]


def link_counters(end: End, context: Context, *, bit_errors: bool) -> Procedure[dict[str, float]]:
    """
    Return how often a link went down or recovered, as its receiver has counted in all.

    With *bit_errors* an RNIC is also asked for errors before and after forward error correction; a switch always
    reports all it can.
    """
    if isinstance(end, SwitchEnd):
        return (yield from _switch_counters(end, context))
    if bit_errors:
        argv = mlxlink.show(end.device, counters=True)
        counters = mlxlink.read(*(yield from context.look(end.host, argv))).counters
    else:
        counters = sysfs.read_counters(*(yield from plainly(end.host, sysfs.counters(end.device, end.port))))
    return {f"{end.name}.{name}": float(value) for name, value in counters.items()}


def _switch_counters(end: SwitchEnd, context: Context) -> Procedure[dict[str, float]]:
    """Read a switch's extended counters, which are wide; if they lack the errors, the short ones."""
    via = context.need_via()
    for extended in (True, False):
        argv = infiniband.counters(end.lid, end.port, extended=extended, through=context.in_band())
        counters = infiniband.read_counters(*(yield from context.look(via, argv)))
        if any(name in counters for name in infiniband.ERRORS.values()):
            break
    names = infiniband.ERRORS.items()
    return {f"{end.name}.{name}": float(counters[counter]) for name, counter in names if counter in counters}


def end_to_close(cable: CablePorts, context: Context) -> Procedure[SwitchEnd]:
    """
    Return the switch end that can be closed and opened again from ``via``: of two ends the nearer one.

    Raises Refused when none can be reached without the cable itself: closing it could not be undone.
    """
    via = context.need_via()
    start = yield from _start(via, cable.fabric, context)
    guids = {end.lid: end.guid for end in cable.ends}
    far = distances(cable.fabric, start, without=cable)
    ends = [end for end in (cable.lower, cable.upper) if isinstance(end, SwitchEnd) and guids[end.lid] in far]
    if not ends:
        raise Refused(
            f"{cable.component}: {via} reaches its switch only through this very cable, so that it could not be "
            "opened again; name another host as via"
        )
    return min(ends, key=lambda end: far[guids[end.lid]])


def refuse_our_way(cable: CablePorts, context: Context) -> Procedure[None]:
    """
    Raise Refused when this is the first cable on the way of in-band tools on ``via``, whatever the change and its end.

    Anything that makes the cable worse may take it down, and then nothing done through it can be undone.
    """
    via = context.settings.via
    if via is None or not cable.ends:
        return
    start = yield from _start(via, cable.fabric, context)
    if start in {end.guid for end in cable.ends}:
        raise Refused(
            f"{cable.component}: {via} reaches the switches through this very cable; name another host as via"
        )


def distances(fabric: Iterable[PortLine], start: int, *, without: CablePorts) -> dict[int, int]:
    """
    Return how many cables away each node is from the one with GUID *start*, when a cable is gone.

    An adapter is no way through: each of its ports has its own GUID, and so counts as a node of its own.
    """
    gone = {(end.guid, end.port) for end in without.ends}
    beside = gathered(
        (line.end.guid, line.peer.guid)
        for line in fabric
        if line.peer is not None and line.state.active and (line.end.guid, line.end.port) not in gone
    )
    found, reached = {start: 0}, [start]
    for guid in reached:  # the list grows meanwhile
        for other in beside.get(guid, ()):
            if other not in found:
                found[other] = found[guid] + 1
                reached.append(other)
    return found


def _start(via: str, fabric: tuple[PortLine, ...], context: Context) -> Procedure[int]:
    """Return the GUID of the port that in-band tools on *via* use, as the fabric lists it."""
    device, number = context.via_port()
    guid = yield from node_guid(AdapterEnd(via, device, number))
    line = line_of(fabric, guid, number)
    if line is None or not line.state.active:
        what = f"{via}/{device} is not active in the fabric that it sees"
        raise Refused(f"{what}: switches cannot be reached safely; name another port (changes: via_device)")
    return line.end.guid


POLL_S = 0.5
"""How often an end is asked while it changes (seconds; choice)."""


def seen_end(end: End, context: Context) -> Procedure[PortState]:
    """
    Read an end as ``via`` (for a switch) or its own host's kernel (for an RNIC) sees it.

    Raises ToolError when it cannot be read, Refused when there is no ``via``.
    """
    if isinstance(end, AdapterEnd):
        return sysfs.read_port_state(*(yield from plainly(end.host, sysfs.port_state(end.device, end.port))))
    argv = infiniband.port_info(end.lid, end.port, through=context.in_band())
    return infiniband.read_port(*(yield from context.look(context.need_via(), argv)))


def until_active(end: End, context: Context, until_s: float) -> Procedure[None]:
    """Ask an end until it is Active. Raises MayBeLive with what was seen last when it is *until_s*."""

    def look() -> Procedure[str]:
        seen = yield from seen_end(end, context)
        return "" if seen.active else str(seen)

    text, _ = yield from awaited(look, until_s=until_s, pause_s=POLL_S)
    if text:
        raise MayBeLive(f"{end} was put back and does not come up: {text}")
