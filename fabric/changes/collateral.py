"""
Links that a fault must not take down, read again and again while it is in force.

Watched are the RNICs of the phase's hosts whose own cable nobody is to close (those with bit errors too: errors must
not take a link away), and the cables between switches that are to carry bit errors. Other cables between switches are
not looked at: that would be a walk over the whole fabric each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fabric.changes.closing import seen_end
from fabric.changes.kind import Context, kind_of
from fabric.changes.ports import End, cable_of, plainly
from fabric.changes.procedure import Procedure, pause
from fabric.errors import FabricError
from fabric.model.change import Change
from fabric.tools import sysfs

LOOK_S = 5.0
"""Pause between two looks at a host (seconds; choice: one ``cat`` is nothing that a measurement sees)."""

LOOKS_PER_S = 100.0
"""With so many hosts that this would be exceeded, each is looked at less often (choice)."""

ANSWER_S = 10.0
"""Deadline of a look (seconds; choice: a host that takes longer to read a file of /sys hangs)."""

GONE = "gone"
"""The state of a port whose device is not there any more."""

_UP = frozenset({"ACTIVE", "ACTIVE_DEFER"})

Port = tuple[str, int]
"""RDMA device and port."""

Links = Mapping[str, str]
"""The state of each link by name; empty text: up."""


@dataclass(slots=True)
class Lookout:
    """
    What every watching procedure of a phase shares.

    *went_down*: told a link, its state, and when it was last seen up (seconds of *clock*). *unreadable*: told a host
    and why nothing could be read there. *looked*: who has looked once. *ended*: one more look, and then no more.
    """

    clock: Callable[[], float]
    period_s: float
    went_down: Callable[[str, str, float], None]
    unreadable: Callable[[str, FabricError], None]
    looked: set[str] = field(default_factory=set)
    ended: bool = False


def period_s(hosts: int) -> float:
    """The pause between two looks at one of so many hosts, seconds."""
    return max(LOOK_S, hosts / LOOKS_PER_S)


def watched_ports(host: str, changes: Collection[Change], context: Context) -> tuple[Port, ...]:
    """The ports of a host that no change of the phase closes; none for a host that the inventory does not have."""
    closed = {change.component for change in changes if kind_of(change).closes}
    found = context.topology.hosts.get(host)
    rnics = () if found is None else found.platform.rnics
    return tuple((rnic.device, rnic.port) for rnic in rnics if f"{host}/{rnic.device}" not in closed)


def watch_host(host: str, ports: Sequence[Port], lookout: Lookout) -> Procedure[None]:
    """Watch the links of one host, until the lookout has ended."""
    yield from _watch(host, host, lambda: _links_of(host, ports), lookout)


def watch_cable(change: Change, context: Context, lookout: Lookout) -> Procedure[None]:
    """Watch a cable between switches that carries bit errors, by its lower end."""
    via = context.settings.via or change.component
    try:
        cable = yield from cable_of(change.component, context)
    except FabricError as exc:
        lookout.unreadable(via, exc)
        lookout.looked.add(change.component)
        return
    yield from _watch(change.component, via, lambda: _link_of(change.component, cable.lower, context), lookout)


def _watch(name: str, host: str, read: Callable[[], Procedure[Links]], lookout: Lookout) -> Procedure[None]:
    """Only a link that was seen up can go down: what was down before anything was altered is none of our business."""
    up: set[str] = set()
    seen_s = lookout.clock()
    while True:
        at_s, last = lookout.clock(), lookout.ended
        try:
            links = yield from read()
        except FabricError as exc:
            lookout.unreadable(host, exc)
        else:
            for link in sorted(up):
                if links[link]:
                    lookout.went_down(link, links[link], seen_s)
            up, seen_s = {link for link, state in links.items() if not state}, at_s
        lookout.looked.add(name)
        if last:
            return
        if not lookout.ended:
            yield from pause(lookout.clock() + lookout.period_s)


def _links_of(host: str, ports: Sequence[Port]) -> Procedure[Links]:
    """One ``cat`` for all ports; where some are not there it cannot say which, and each is asked for by itself."""
    states = yield from _states(host, ports)
    if len(states) != len(ports):
        found: list[str] = []
        for port in ports:
            found += (yield from _states(host, [port])) or (GONE,)
        states = tuple(found)
    return {f"{host}/{port[0]}": "" if state in _UP else state for port, state in zip(ports, states, strict=True)}


def _states(host: str, ports: Sequence[Port]) -> Procedure[tuple[str, ...]]:
    return sysfs.read_states(*(yield from plainly(host, sysfs.states(list(ports)), timeout_s=ANSWER_S)))


def _link_of(name: str, end: End, context: Context) -> Procedure[Links]:
    seen = yield from seen_end(end, context)
    return {name: "" if seen.up else str(seen)}
