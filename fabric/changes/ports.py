"""From the name of a cable to the ports at both its ends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fabric.changes.kind import Context
from fabric.changes.look import FABRIC_S, look, plainly, program
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.model.fields.wording import nearest
from fabric.tools import iblinkinfo, sysfs
from fabric.tools.iblinkinfo import PortLine

_SWITCH_TEXT = re.compile(r"(?P<name>.+):(?P<port>\d+) \(lid (?P<lid>\d+)\)")
_ADAPTER_TEXT = re.compile(r"(?P<host>[^\s/]+)/(?P<device>[^\s:]+):(?P<port>\d+)")
# How switches of MLNX-OS describe themselves: MF0;name:MQM8700/U1.
_MANAGED = re.compile(r"MF\d+;(?P<name>[^:]+):.*")


@dataclass(frozen=True, slots=True)
class AdapterEnd:
    """The port of an RNIC, on its own host."""

    host: str
    device: str
    port: int

    @property
    def name(self) -> str:
        """As in component names."""
        return f"{self.host}/{self.device}"

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class SwitchEnd:
    """A port of a switch: *lid* is the switch's, *port* as the InfiniBand tools number it."""

    switch: str
    lid: int
    port: int

    @property
    def name(self) -> str:
        """``leaf3:17``."""
        return f"{self.switch}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name} (lid {self.lid})"


End = AdapterEnd | SwitchEnd


@dataclass(frozen=True, slots=True)
class Cable:
    """
    A cable and its ends; *upper* None: the switch cannot be looked at (no ``via``, or Ethernet).

    *line*: the lower end as the fabric was seen, None where it was not; *fabric*: all that was seen.
    """

    component: str
    lower: End
    upper: SwitchEnd | None
    line: PortLine | None = None
    fabric: tuple[PortLine, ...] = ()


def end_named(text: str) -> End:
    """The end that ``str(end)`` wrote; ValueError on any other text."""
    if found := _SWITCH_TEXT.fullmatch(text):
        return SwitchEnd(found["name"], int(found["lid"]), int(found["port"]))
    if found := _ADAPTER_TEXT.fullmatch(text):
        return AdapterEnd(found["host"], found["device"], int(found["port"]))
    raise ValueError(f"{text!r} names no end of a cable")


def parts(component: str) -> tuple[str, str, int]:
    """``a--b#1`` to its switches and which of their parallel cables; ValueError when it is none."""
    ends, sharp, digits = component.partition("#")
    one, dashes, other = ends.partition("--")
    if not dashes or not one or not other or (sharp and not re.fullmatch(r"[0-9]{1,4}", digits, re.ASCII)):
        raise ValueError(f"{component!r} is no cable between switches")
    return one, other, int(digits or 0)


def cable_of(component: str, context: Context) -> Procedure[Cable]:
    """
    The cable called *component*: ``gpu001/mlx5_0`` or ``su0-leaf3--spine02`` (``#1`` the second parallel one).

    Raises Refused when it is not there, down, or not to be told from others; ToolError when a tool cannot be read.
    """
    if "/" in component:
        return (yield from _adapter_cable(component, context))
    return (yield from _switch_cable(component, context))


def fabric_ports(context: Context) -> Procedure[tuple[PortLine, ...]]:
    """Every port of the fabric as ``via`` sees it; Refused when there is no ``via``."""
    via = context.settings.via
    if via is None:
        raise Refused("switches are reached from a host of the fabric, and the inventory names none (changes: via)")
    tool = program(context, via, "iblinkinfo")
    return iblinkinfo.read(*(yield from look(context, via, iblinkinfo.argv(tool=tool), timeout_s=FABRIC_S)))


def ethernet(component: str, context: Context) -> bool:
    """Whether the cable of an RNIC is an Ethernet one; switches are asked in-band, so their cables are not."""
    host = context.topology.hosts.get(component.partition("/")[0])
    return host is not None and host.platform.link_layer == "ethernet"


def adapter_end(component: str, context: Context) -> AdapterEnd:
    """The RNIC's own end of its cable; Refused when the inventory has no such RNIC."""
    name, _, device = component.partition("/")
    host = context.topology.hosts.get(name)
    if host is None:
        raise Refused(f"{component}: there is no host {name}{nearest(name, list(context.topology.hosts))}")
    rnics = host.platform.rnic_by_device
    if device not in rnics:
        raise Refused(f"{component}: {name} has no RNIC {device}{nearest(device, list(rnics))}")
    return AdapterEnd(name, device, rnics[device].port)


def node_guid(end: AdapterEnd) -> Procedure[int]:
    """The GUID of an RNIC, from its own host."""
    return sysfs.read_node_guid(*(yield from plainly(end.host, sysfs.node_guid(end.device))))


def line_of(fabric: Iterable[PortLine], guid: int, port: int) -> PortLine | None:
    """An adapter's line: it is listed with its port's GUID, which is the node's or the node's plus the port."""
    found = {line.end.guid: line for line in fabric if line.end.port == port}
    return found.get(guid) or found.get(guid + port)


def _adapter_cable(component: str, context: Context) -> Procedure[Cable]:
    lower = adapter_end(component, context)
    if context.settings.via is None or ethernet(component, context):
        return Cable(component, lower, None)
    fabric = yield from fabric_ports(context)
    guid = yield from node_guid(lower)
    line = line_of(fabric, guid, lower.port)
    if line is None:
        raise Refused(f"{component}: GUID 0x{guid:016x} is not in the fabric that {context.settings.via} sees")
    if line.peer is None:
        raise Refused(f"{component}: its link is down already ({line.state}/{line.physical_state})")
    upper = SwitchEnd(switch_name(line.peer.description), line.peer.lid, line.peer.port)
    return Cable(component, lower, upper, line, fabric)


def _switch_cable(component: str, context: Context) -> Procedure[Cable]:
    try:
        one, other, number = parts(component)
    except ValueError as exc:
        raise Refused(str(exc)) from None
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
    if number >= len(between):
        raise Refused(f"{component}: {one} and {other} have cables #0 to #{len(between) - 1}")
    line, peer = between[number]
    near = SwitchEnd(one, line.end.lid, line.end.port)
    return Cable(component, near, SwitchEnd(other, peer.lid, peer.port), line, fabric)


def switch_name(description: str) -> str:
    """What a switch is called in the inventory, from its own description."""
    managed = _MANAGED.fullmatch(description)
    return managed["name"] if managed else description


def _switch_guid(name: str, fabric: tuple[PortLine, ...]) -> int:
    """The one switch of this name, or with this GUID (``0x...``)."""
    switches = iblinkinfo.switches(fabric)
    known = {line.end.guid: switch_name(line.end.description) for line in fabric if line.end.guid in switches}
    found = [guid for guid, called in known.items() if name in (called, f"0x{guid:016x}")]
    if len(found) > 1:
        guids = ", ".join(f"0x{guid:016x}" for guid in sorted(found))
        raise Refused(f"{len(found)} switches are called {name} ({guids}): call them by their GUIDs")
    if not found:
        near = nearest(name, sorted(set(known.values())))
        raise Refused(f"the fabric has no switch {name}{near}")
    return found[0]
