"""``ibroute``: the unicast forwarding table of a switch, by LID."""

from __future__ import annotations

from fabric.sim.phy.cabling import Node
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.ib import Fields, IbError, found_by_lid, no_answer, own_port, tool


@tool("ibroute", "all -a --all\nbare -n --no_dests")
def ibroute(asked: ToolCall, fields: Fields, rest: list[str]) -> Said:
    """``ibroute [-n] LID``: where its packets go now, and who is at the end of that."""
    own = own_port(asked, fields)
    if not rest:
        raise IbError("can't resolve destination port (null)")
    switch = found_by_lid(asked, own, rest[0], "node info failed: invalid addr?")
    if switch.host is not None:
        raise IbError(f"dump tables: can't get switch info of Lid {switch.lid}")
    from fabric.sim.subnet.forwarding_table import forwarding_table  # numpy: only for those who ask

    found = forwarding_table(asked.ports.cabling, asked.rack.above.network(), switch)
    reached = {node.lid for node in asked.reached(own)}
    top = max(found, default=0)
    said = f"Unicast lids [0x0-0x{top:x}] of switch Lid {switch.lid} guid 0x{switch.guid:x} ({switch.description}):\n"
    said += "  Lid  Out   Destination\n       Port     Info \n"
    warned = ""
    for lid, port in found.items():
        about = "" if "bare" in fields else f" : {_about(asked, lid, reached)}"
        said += f"0x{lid:04x} {port:03d}{about}\n"
        if lid not in reached:
            warned += no_answer(asked, f"Lid {lid}")
    return Said(f"{said}{len(found)} valid lids dumped \n", warned)


def _about(asked: ToolCall, lid: int, reached: set[int]) -> str:
    if lid not in reached:
        return "(unknown node and type)"
    node: Node = asked.ports.cabling.by_lid[lid]
    kind = "Switch" if node.host is None else "Channel Adapter"
    return f"({kind} portguid 0x{node.guid:x}: '{node.description}')"
