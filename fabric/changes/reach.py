"""
Whether a port that is closed in-band can be opened again in-band: the way there must not go through it.

Of a cable between switches the end nearer to where we are is closed. So several closed cables never lock each other in:
of those that are closed the nearest can always be opened, and then the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from fabric.changes.kind import Context
from fabric.changes.ports import AdapterEnd, Cable, SwitchEnd, line_of, node_guid
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.tools.iblinkinfo import PortLine


def end_to_close(cable: Cable, context: Context) -> Procedure[SwitchEnd]:
    """
    The switch end that can be closed and opened again from ``via``: of two the one nearer to it.

    Raises Refused when none can be reached without the cable itself: closing it could not be undone.
    """
    via = context.settings.via
    if via is None or cable.upper is None:
        raise Refused(f"{cable.component}: its switch cannot be reached (changes: via in the inventory)")
    start = yield from _start(via, cable.fabric, context)
    guids = {end.lid: end.guid for line in cable.fabric for end in (line.end, line.peer) if end is not None}
    far = distances(cable.fabric, start, without=cable)
    ends = [end for end in (cable.lower, cable.upper) if isinstance(end, SwitchEnd) and guids.get(end.lid) in far]
    if not ends:
        raise Refused(
            f"{cable.component}: {via} reaches its switch only through this very cable, so that it could not be "
            "opened again; name another host as via"
        )
    return min(ends, key=lambda end: far[guids[end.lid]])


def refuse_our_way(cable: Cable, context: Context) -> Procedure[None]:
    """
    Raise Refused when this is the first cable on the way of in-band tools on ``via``, whatever is done to it and where.

    Whatever makes it worse may take it down, and then nothing that was done through it can be undone.
    """
    via = context.settings.via
    if via is None or cable.line is None:
        return
    start = yield from _start(via, cable.fabric, context)
    if start in {end.guid for end in (cable.line.end, cable.line.peer) if end is not None}:
        raise Refused(
            f"{cable.component}: {via} reaches the switches through this very cable; name another host as via"
        )


def distances(fabric: Iterable[PortLine], start: int, *, without: Cable) -> dict[int, int]:
    """
    How many cables away each node is from the one with GUID *start*, when a cable is gone.

    An adapter is no way through: each of its ports has a GUID, and so is a node, of its own.
    """
    lines = [line for line in fabric if line.peer is not None and line.active and not _is(line, without)]
    beside: dict[int, list[int]] = {}
    for line in lines:
        assert line.peer is not None
        beside.setdefault(line.end.guid, []).append(line.peer.guid)
    found = {start: 0}
    queue = deque([start])
    while queue:
        guid = queue.popleft()
        for other in beside.get(guid, ()):
            if other not in found:
                found[other] = found[guid] + 1
                queue.append(other)
    return found


def _is(line: PortLine, cable: Cable) -> bool:
    """Whether a line is one of the two ends of a cable."""
    if cable.line is None or cable.line.peer is None or line.peer is None:
        return False
    ends = {(end.guid, end.port) for end in (cable.line.end, cable.line.peer)}
    return {(line.end.guid, line.end.port), (line.peer.guid, line.peer.port)} == ends


def _start(via: str, fabric: tuple[PortLine, ...], context: Context) -> Procedure[int]:
    """The port that in-band tools on *via* use: the first that is active, as they choose it."""
    host = context.topology.hosts.get(via)
    for rnic in () if host is None else host.platform.rnics:
        guid = yield from node_guid(AdapterEnd(via, rnic.device, rnic.port))
        line = line_of(fabric, guid, rnic.port)
        if line is not None and line.active:
            return line.end.guid
    raise Refused(f"none of the ports of {via} is in the fabric that it sees: switches cannot be reached safely")
