"""``ibportstate``: a port's state through the fabric, and the switch to change it."""

from __future__ import annotations

from fabric.sim.cabling import Node
from fabric.sim.ib_options import PHYSICAL, STATES, IbError, dots, failed, found_by_lid, own_port, subnet_manager, table
from fabric.sim.line_kinds import LANES
from fabric.sim.options import BadOption, taken_apart
from fabric.sim.port_tool import Asked, Said, whole_number
from fabric.sim.ports import ACTIVE, DISABLED, DOWN, Port

_OPTIONS = table(flags="-D --Direct -G --Guid")
_OPERATIONS = ("query", "enable", "disable", "on", "off", "reset", "down", "arm", "active")
_BASE = "2.5 Gbps or 5.0 Gbps or 10.0 Gbps"


def ibportstate(asked: Asked) -> Said:
    """One call: ``ibportstate [options] <lid> <port> [operation]``, or ``-D <path>`` in place of the LID."""
    try:
        fields, rest = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"ibportstate: {bad}\n", status=255)
    try:
        return Said(_run(asked, fields, rest))
    except IbError as error:
        return failed("ibportstate", error)


def _run(asked: Asked, fields: dict[str, str], rest: list[str]) -> str:
    if len(rest) < 2:
        raise IbError("can't resolve destination port" if not rest else "need port number")
    operation = rest[2] if len(rest) > 2 else "query"
    if operation not in _OPERATIONS:
        raise IbError(f"invalid operation: {operation}")
    own = own_port(asked, fields)
    if "D" in fields or "Direct" in fields:
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
    _operate(asked, port, operation)
    return said + "\nAfter PortInfo set:\n" + _info(asked, port, title)


def _operate(asked: Asked, port: Port, operation: str) -> None:
    ports, at_s = asked.ports, asked.at_s
    if operation in ("disable", "off"):
        ports.disable(port, at_s)
    elif operation in ("reset", "down"):
        ports.bounce(port, at_s)
    elif operation in ("enable", "on"):
        # Enable asks for Polling, like reset; on a link that is up that is a bounce too.
        ports.bounce(port, at_s)


def _walked(asked: Asked, own: Port, path: str) -> Node:
    """Where a directed route (``0,1,23``) ends: out of those ports one after the other."""
    steps = [whole_number(step) for step in path.split(",")]
    if steps[0] != 0:
        raise IbError(f"can't resolve destination port {path}")
    name = own.node.name
    for step in steps[1:]:
        end = (name, -1 if step is None else step)
        peer = asked.ports.cabling.peers.get(end)
        if peer is None or asked.ports.at(end).logical == DOWN:
            where = f"dport (DR path slid 0; dlid 0; {path})"
            warned = f"ibwarn: [{asked.pid + 20000}] mad_rpc: _do_madrpc failed; {where}\n"
            raise IbError("smp query nodeinfo failed", warned)
        name = peer[0]
    return asked.ports.cabling.nodes[name]


def _peer(asked: Asked, own: Port, port: Port) -> str:
    peer = asked.ports.peer(port)
    if peer is None:
        return ""
    title = f"Lid {port.node.lid} DR path slid {own.node.lid}; dlid 65535; 0,{port.end[1]}"
    return "Peer PortInfo:\n" + _info(asked, peer, title) + _extra(peer, title)


def _info(asked: Asked, port: Port, title: str) -> str:
    up = port.logical != DOWN
    lanes = " or ".join(LANES[: LANES.index(port.line.lane) + 1])
    adapter = port.node.host is not None
    manager = subnet_manager(asked, port) if adapter else None
    said = f"# Port info: {title} port {port.end[1]}\n"
    said += dots("LinkState", STATES[port.logical]) + dots("PhysLinkState", PHYSICAL[port.physical])
    said += dots("Lid", port.node.lid if adapter else 0) + dots("SMLid", manager.lid if manager else 0) + dots("LMC", 0)
    said += dots("LinkWidthSupported", "1X or 4X or 2X") + dots("LinkWidthEnabled", "1X or 4X or 2X")
    said += dots("LinkWidthActive", "4X")
    said += dots("LinkSpeedSupported", _BASE) + dots("LinkSpeedEnabled", _BASE)
    said += dots("LinkSpeedActive", "10.0 Gbps" if up else "2.5 Gbps")
    said += dots("LinkSpeedExtSupported", lanes) + dots("LinkSpeedExtEnabled", lanes)
    said += dots("LinkSpeedExtActive", port.line.lane if up else "No Extended Speed")
    if adapter:
        said += dots("Mkey", "<not displayed>") + dots("MkeyLeasePeriod", 0) + dots("ProtectBits", 0)
    return said


def _extra(port: Port, title: str) -> str:
    names = ("StateChangeEnable", "LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive")
    return f"# MLNX ext Port info: {title} port {port.end[1]}\n" + "".join(dots(name, "0x00") for name in names)
