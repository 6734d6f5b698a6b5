"""``ibportstate``: a port's state through the fabric, and the switch to change it."""

from __future__ import annotations

from fabric.sim.phy.cabling import Node
from fabric.sim.phy.lines import LANES
from fabric.sim.phy.port import ACTIVE, DISABLED, DOWN, Port
from fabric.sim.tools.call import ToolCall, whole_number
from fabric.sim.tools.ib import (
    PHYSICAL,
    STATES,
    Fields,
    IbError,
    dots,
    found_by_lid,
    no_answer,
    own_port,
    subnet_manager,
    tool,
)

_OPERATIONS = ("query", "enable", "disable", "on", "off", "reset", "down", "arm", "active")
_BASE = "2.5 Gbps or 5.0 Gbps or 10.0 Gbps"


@tool("ibportstate", "direct -D --Direct\nguid -G --Guid")
def ibportstate(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """One call: ``ibportstate [options] <lid> <port> [operation]``, or ``-D <path>`` in place of the LID."""
    if len(rest) < 2:
        raise IbError("can't resolve destination port" if not rest else "need port number")
    operation = rest[2] if len(rest) > 2 else "query"
    if operation not in _OPERATIONS:
        raise IbError(f"invalid operation: {operation}")
    own = own_port(asked, fields)
    if "direct" in fields:
        node, title = _walked(asked, own, rest[0]), f"DR path slid 65535; dlid 65535; {rest[0]}"
    else:
        node = found_by_lid(asked, own, rest[0], "smp query nodeinfo failed")
        title = f"Lid {node.lid}"
    number = whole_number(rest[1])
    end = next((end for end in asked.ports.cabling.ends(node) if end[1] == number), None)
    if end is None:
        raise IbError("smp query portinfo failed")
    port = asked.ports.at(end)
    what = "Switch" if node.host is None else "CA/RT"
    if operation == "query":
        said = f"{what} PortInfo:\n" + _info(asked, port, title) + _extra(port, title)
        return said + (_peer(asked, own, port) if node.host is None and port.logical == ACTIVE else "")
    said = f"Initial {what} PortInfo:\n" + _info(asked, port, title) + _extra(port, title)
    if operation == "on" and port.physical != DISABLED:
        return said + "Port is already in enable state\n"
    said += "Disable may be irreversible\n" if operation in ("disable", "off") else ""
    if operation in ("disable", "off"):
        asked.ports.disable(port, asked.at_s)
    elif operation not in ("arm", "active"):
        asked.ports.bounce(port, asked.at_s)  # enable asks for Polling, like reset: on a link that is up a bounce too
    return said + "\nAfter PortInfo set:\n" + _info(asked, port, title)


def _walked(asked: ToolCall, own: Port, path: str) -> Node:
    """Where a directed route (``0,1,23``) ends: out of those ports one after the other."""
    steps = [whole_number(step) for step in path.split(",")]
    if steps[0] != 0:
        raise IbError(f"can't resolve destination port {path}")
    name = own.node.name
    for step in steps[1:]:
        end = (name, -1 if step is None else step)
        peer = asked.ports.cabling.peers.get(end)
        if peer is None or asked.ports.at(end).logical == DOWN:
            raise IbError("smp query nodeinfo failed", no_answer(asked, f"DR path slid 0; dlid 0; {path}"))
        name = peer[0]
    return asked.ports.cabling.nodes[name]


def _peer(asked: ToolCall, own: Port, port: Port) -> str:
    peer = asked.ports.peer(port)
    if peer is None:
        return ""
    title = f"Lid {port.node.lid} DR path slid {own.node.lid}; dlid 65535; 0,{port.end[1]}"
    return "Peer PortInfo:\n" + _info(asked, peer, title) + _extra(peer, title)


def _info(asked: ToolCall, port: Port, title: str) -> str:
    up = port.logical != DOWN
    lanes = " or ".join(LANES[: LANES.index(port.line.lane) + 1])
    adapter = port.node.host is not None
    manager = subnet_manager(asked, port) if adapter else None
    rows: dict[str, object] = {
        "LinkState": STATES[port.logical],
        "PhysLinkState": PHYSICAL[port.physical],
        "Lid": port.node.lid if adapter else 0,
        "SMLid": manager.lid if manager else 0,
        "LMC": 0,
        "LinkWidthSupported": "1X or 4X or 2X",
        "LinkWidthEnabled": "1X or 4X or 2X",
        "LinkWidthActive": "4X",
        "LinkSpeedSupported": _BASE,
        "LinkSpeedEnabled": _BASE,
        "LinkSpeedActive": "10.0 Gbps" if up else "2.5 Gbps",
        "LinkSpeedExtSupported": lanes,
        "LinkSpeedExtEnabled": lanes,
        "LinkSpeedExtActive": port.line.lane if up else "No Extended Speed",
    }
    if adapter:
        rows |= {"Mkey": "<not displayed>", "MkeyLeasePeriod": 0, "ProtectBits": 0}
    return f"# Port info: {title} port {port.end[1]}\n" + "".join(dots(name, value) for name, value in rows.items())


def _extra(port: Port, title: str) -> str:
    names = ("StateChangeEnable", "LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive")
    return f"# MLNX ext Port info: {title} port {port.end[1]}\n" + "".join(dots(name, "0x00") for name in names)
