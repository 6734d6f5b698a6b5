"""``iblinkinfo`` and ``sminfo``: the fabric as one port of a host sees it."""

from __future__ import annotations

from fabric.sim.phy.cabling import End, Node
from fabric.sim.phy.port import DOWN
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.ib import PHYSICAL, STATES, Fields, IbError, has_guid, own_port, subnet_manager, tool


@tool("iblinkinfo", "line -l --line\ndown --down\nignored -D\nguid= -S -G", bad_status=1)
def iblinkinfo(asked: ToolCall, fields: Fields, rest: list[str]) -> Said:
    """Every port of every node that is found; ``-l`` gives one whole line a port, ``-S GUID`` one switch."""
    del rest
    try:
        own = own_port(asked, fields)
    except IbError as error:
        return Said(stderr=f"{error.warned}{str(error).replace(chr(39), '')}\n", status=1)
    in_lines = "line" in fields
    only_down = "down" in fields
    said = []
    for node in reversed(asked.reached(own)):  # as the tool walks them: the farthest first, the own one last
        if "guid" in fields and not has_guid(node, fields["guid"]):
            continue
        lines = [
            _link(asked, node, end, in_lines=in_lines)
            for end in asked.ports.cabling.ends(node)
            if not only_down or asked.ports.at(end).logical == DOWN
        ]
        if lines and not in_lines:
            head = f"Switch: 0x{node.guid:016x}" if node.host is None else "CA:"
            said.append(f"{head} {node.description}:\n")
        said += lines
    return Said("".join(said))


def _link(asked: ToolCall, node: Node, end: End, *, in_lines: bool) -> str:
    port = asked.ports.at(end)
    peer = asked.ports.peer(port) if port.logical != DOWN else None
    if in_lines:
        lead = f'0x{node.guid:016x} "{node.description:>30}" {node.lid:6d} {end[1]:4d}[  ] '
    else:
        lead = f"      {'' if node.host is None else f'0x{node.guid:016x}'}"
        lead += f" {node.lid:6d} {end[1]:4d}[  ] " if node.host is not None else f"{node.lid:6d} {end[1]:4d}[  ] "
    state = f"{STATES[port.logical][:6]:>6}/{PHYSICAL[port.physical]:>8}"
    if peer is None:
        return f'{lead}==({"":3} {"":9} {state})==>             [  ] "" ( )\n'
    there = f" 0x{peer.node.guid:016x}" if in_lines else ""
    to = f'==> {there} {peer.node.lid:6d} {peer.end[1]:4d}[  ] "{peer.node.description}" ( )'
    return f"{lead}==( 4X {port.line.lane:>18} {state}){to}\n"


@tool("sminfo")
def sminfo(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """The subnet manager that the own port listens to."""
    del rest
    manager = subnet_manager(asked, own_port(asked, fields))
    if manager is None:
        raise IbError("query")
    count = int(asked.at_s / 10)  # it sweeps every ten seconds (opensm's default)
    master = asked.rack.managers.master
    priority = 0 if master is None else master[1]
    about = f"activity count {count} priority {priority} state 3 SMINFO_MASTER"
    return f"sminfo: sm lid {manager.lid} sm guid 0x{manager.guid:016x}, {about}\n"
