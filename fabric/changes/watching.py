"""Watches links and counters, which are read repeatedly while a fault is in force.

Two sorts of links are watched: RNICs of the phase's hosts whose own cable no change closes (also those with bit errors:
errors must not take a link down), and cables between switches that are to carry bit errors. Other cables between
switches are not looked at, because that would be a walk over the whole fabric each time. A change is taken back when a
receiver of its cable has counted more than the scenario allows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fabric.changes.cable_fault import CableFault
from fabric.changes.kind import Context, Counters, kind_of
from fabric.changes.ports import Port, cable_of, port_states, seen_end
from fabric.changes.procedure import Procedure, pause
from fabric.errors import FabricError
from fabric.model.change import AdapterEnd, Change, End

LOOK_S = 5.0
"""Pause between two looks at a host (seconds; choice: one ``cat`` does not show in a measurement)."""

LOOKS_PER_S = 100.0
"""Most looks per second; with more hosts, each is looked at less often (choice)."""

ANSWER_S = 10.0
"""Deadline of a look (seconds; choice: a host that takes longer to read a file of /sys hangs)."""

_UP = frozenset({"ACTIVE", "ACTIVE_DEFER"})

Links = Mapping[str, str]
"""The state of each link by name; empty text: up."""


@dataclass(slots=True)
class Lookout:
    """
    What every watching procedure of a phase shares.

    *went_down* is called with a link, its state, and when it was last seen up (seconds of *clock*). *unreadable* is
    called with a host and why nothing could be read there. *looked*: names that were looked at once. *ended*: look once
    more, then stop.
    """

    clock: Callable[[], float]
    period_s: float
    went_down: Callable[[str, str, float], None]
    unreadable: Callable[[str, FabricError], None]
    looked: set[str] = field(default_factory=set)
    ended: bool = False


def period_s(hosts: int) -> float:
    """Return the pause between two looks at one of so many hosts, seconds."""
    return max(LOOK_S, hosts / LOOKS_PER_S)


def watched_ports(host: str, changes: Collection[Change], context: Context) -> tuple[Port, ...]:
    """Return the ports of a host that no change of the phase closes."""
    closed = {change.component for change in changes if kind_of(change).closes}
    rnics = context.topology.hosts[host].platform.rnics
    return tuple((rnic.device, rnic.port) for rnic in rnics if f"{host}/{rnic.device}" not in closed)


def watch_host(host: str, ports: Sequence[Port], lookout: Lookout) -> Procedure[None]:
    """Watch the links of one host until the lookout has ended."""
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
    """Read links repeatedly; only a link that was seen up can go down, so those down from the start are ignored."""
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
    states = yield from port_states(host, ports, timeout_s=ANSWER_S)
    return {f"{host}/{device}": "" if state in _UP else state for (device, _), state in states.items()}


def _link_of(name: str, end: End, context: Context) -> Procedure[Links]:
    seen = yield from seen_end(end, context)
    return {name: "" if seen.up else str(seen)}


_KERNEL_NAMES = {"symbol_error": "symbol_errors"}
"""Counters that the kernel names differently than the tools."""


def watch_counters(
    change: Change,
    context: Context,
    lookout: Lookout,
    *,
    before: Callable[[], Counters | None],
    stop: Callable[[str], None],
) -> Procedure[None]:
    """
    Read the counters at the ends of a changed cable while the change is in force (``stop_above`` of a scenario).

    *before*: returns the counters from just before it was applied, None while it is not in force. *stop* is called with
    the reason to end the change, also when a wanted counter does not exist: an unwatched limit is no limit.
    """
    try:
        cable = yield from cable_of(change.component, context)
        ends = tuple(end for end in (cable.lower, cable.upper) if end is not None)
        offered = {_counter(key) for key in (yield from _read(change, ends, context))}
    except FabricError as exc:
        stop(f"{change.change_id}: its counters cannot be watched (stop_above): {exc}")
        return
    missing = [name for name, _ in change.when.stop_above if name not in offered]
    if missing:
        have = ", ".join(sorted(offered)) or "nothing"
        stop(f"{change.change_id}: {missing[0]} (stop_above) is not counted there; counted are {have}")
        return
    lookout.looked.add(change.change_id)
    while not lookout.ended:
        yield from pause(lookout.clock() + lookout.period_s)
        if before() is None:
            continue
        try:
            now = yield from _read(change, ends, context)
        except FabricError as exc:
            lookout.unreadable(_asked(ends, context), exc)
            continue
        base = before()
        for reason in () if base is None else over(change, base, now):
            stop(reason)


def over(change: Change, before: Counters, now: Counters) -> Iterator[str]:
    """Yield, in words, each counter that grew beyond its limit or was not read before the change was applied."""
    for name, most in change.when.stop_above:
        keys = [key for key in before if _counter(key) == name]
        if not keys:
            yield f"{change.change_id}: {name} (stop_above) could not be read before it was applied"
        for key in keys:
            grew = now[key] - before[key] if key in now else 0.0
            if grew > most:
                yield f"{change.change_id}: {key} grew by {grew:.0f}, more than {most:.0f} (stop_above)"


def _counter(key: str) -> str:
    """Return the counter of ``gpu001/mlx5_0.symbol_error``, by the name that scenarios use."""
    name = key.rpartition(".")[2]
    return _KERNEL_NAMES.get(name, name)


def _read(change: Change, ends: tuple[End, ...], context: Context) -> Procedure[dict[str, float]]:
    """Read the counters that the change itself reads before and after."""
    spec = change.spec
    return (yield from spec.counted(ends, context)) if isinstance(spec, CableFault) else {}


def _asked(ends: tuple[End, ...], context: Context) -> str:
    """Return the host to blame when nothing can be read."""
    return next((end.host for end in ends if isinstance(end, AdapterEnd)), context.settings.via or "")
