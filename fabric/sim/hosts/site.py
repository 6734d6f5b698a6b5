"""One simulated host while it runs, and its running transfers: each shared capacity is split equally at any moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from math import cos, exp, inf, pi
from typing import Protocol, TypeAlias

from fabric.model.topology import Gpu, Host
from fabric.sim.faults import GONE, WAYS, HostFaults
from fabric.sim.hashing import text_hash
from fabric.sim.hosts.capacity import Layout, Path


@dataclass(frozen=True, slots=True)
class Ring:
    """
    The hosts that a flow connects, in ring order, and the rails it runs on.

    *bus_ratio*: bus bandwidth over what an RNIC carries. *adaptive*: its packets may be routed adaptively where the
    fabric does that for their *service_level*. *one_way*: of two hosts only the first sends. *to_rails*: the rails of
    the receiving host, where they differ. *every*: not a ring; each host sends the same amount to every other. *draw*:
    decides the ports of its connections, which a hash uses. *qps*: connections between two hosts; 0: as the inventory
    says.
    """

    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    bus_ratio: float
    adaptive: bool = True
    service_level: int = 0
    one_way: bool = False
    to_rails: tuple[int, ...] = ()
    every: bool = False
    draw: int = 0
    qps: int = 0


@dataclass(frozen=True, slots=True)
class Drift:
    """A value that was *level* at *since_s* and approaches *target* with time constant *constant_s*."""

    level: float
    target: float
    since_s: float
    constant_s: float

    def at(self, now_s: float) -> float:
        """Return the value at *now_s*."""
        return self.target + (self.level - self.target) * exp(-(now_s - self.since_s) / self.constant_s)


QUICK_S = 40.0
"""Time constant of a GPU under its heat sink; choice."""

SLOW_S = 150.0
"""Time constant of an RNIC and of a transceiver module; choice."""


class CarriedLoad:
    """
    The load of all transfers over one set of capacities.

    *gb* is what they carried, *missed_gb* what they could have carried in addition had nothing held them up. A part
    warms by a first-order law, which is linear: each transfer's heat is added when it ends, and then only fades.
    """

    __slots__ = ("_at_s", "_quick_gbps", "_slow_gbps", "gb", "missed_gb")

    def __init__(self) -> None:
        # The last two: the rate that still counts after each lag.
        self.gb = self.missed_gb = self._at_s = self._quick_gbps = self._slow_gbps = 0.0

    def add(self, flow: Flow, weight: float, at_s: float) -> None:
        """Add a transfer that ends now; one Gb/s of these capacities carries *weight* of it."""
        gb, lasted_s = flow.carried_gb(at_s) / weight, at_s - flow.began_s
        self.gb += gb
        if lasted_s <= 0.0:
            return
        self.missed_gb += max(0.0, flow.ceiling_gbps / weight * lasted_s - gb)
        since_s, rate_gbps = at_s - self._at_s, gb / lasted_s
        # What a first-order lag makes of a steady rate is added to what has faded since.
        self._quick_gbps = self._quick_gbps * exp(-since_s / QUICK_S) + rate_gbps * (1.0 - exp(-lasted_s / QUICK_S))
        self._slow_gbps = self._slow_gbps * exp(-since_s / SLOW_S) + rate_gbps * (1.0 - exp(-lasted_s / SLOW_S))
        self._at_s = at_s

    def felt_gbps(self, at_s: float, constant_s: float) -> float:
        """
        Return the rate that these ended transfers still count for after a lag of *constant_s* (one of the two
        constants).
        """
        felt_gbps = self._quick_gbps if constant_s == QUICK_S else self._slow_gbps
        return felt_gbps * exp(-(at_s - self._at_s) / constant_s)


SWING_C, SWING_S = 15.0, 21600.0


def swung_c(since_s: float, now_s: float) -> float:
    """Return how much warmer a module is that warms by up to 15 C and cools again, once in six hours."""
    return SWING_C * (1.0 - cos(2.0 * pi * (now_s - since_s) / SWING_S)) / 2.0


Act = Callable[[float], None]
"""An action at a simulated time, which is passed in."""

Share: TypeAlias = "tuple[Site, tuple[int, ...], float]"
"""A host, the capacities of it that a flow uses, and how much of the flow's bandwidth one Gb/s of them carries."""


@dataclass(slots=True, eq=False)
class Flow:
    """
    One transfer while it runs.

    It ends at a set time, or once it has carried *need_gb*. With a *ring* it also shares the network between leaves,
    which limits it to *limit_gbps*; where that network has queues (*queued*), the limit includes the other flows of its
    RNICs. Subclasses define what follows its end (``finish``).
    """

    shares: tuple[Share, ...]
    ceiling_gbps: float
    ring: Ring | None = None
    limit_gbps: float = inf
    rate_gbps: float = 0.0
    sent_gb: float = 0.0
    began_s: float = 0.0
    since_s: float = 0.0
    end_s: float | None = None
    need_gb: float | None = None
    steady: bool = True
    live: bool = False
    queued: bool = False
    counted_gb: float = 0.0  # how much of what it carried the network has put on its links
    silent: bool = False  # it lost packets, and its transport has not noticed yet that a path exists again

    def average_gbps(self) -> float:
        """Return the mean bandwidth over its life; the rate itself when that never changed."""
        if self.steady or self.since_s <= self.began_s:
            return self.rate_gbps
        return self.sent_gb / (self.since_s - self.began_s)

    def carried_gb(self, at_s: float) -> float:
        """Return what a running flow has carried until now."""
        return self.sent_gb + self.rate_gbps * (at_s - self.since_s)

    def real_rate_gbps(self, rate_gbps: float, at_s: float) -> float:
        """Return the real rate where the path carries nothing or the flow is *silent*."""
        del at_s
        return rate_gbps

    def lost(self, site: Site, at_s: float) -> None:
        """React to a port on its way, on *site*, that went down."""

    def lost_gpu(self, site: Site, at_s: float) -> None:
        """React to a GPU on *site* that it uses and that went away."""
        self.lost(site, at_s)

    def finish(self, at_s: float) -> None:
        """React to the end of the flow, which has let go of its capacities."""


class UpperNetwork(Protocol):
    """The network above the leaves, as ``Sharing`` uses it."""

    @property
    def running(self) -> tuple[Flow, ...]:
        """Return the flows that share the network now."""

    def begin(self, flow: Flow, ring: Ring) -> None:
        """Add a flow that runs over this ring."""

    def end(self, flow: Flow, carried_gb: float) -> None:
        """Remove a flow that has ended; it carried *carried_gb* in its life."""

    def limits_gbps(self, at_s: float) -> Iterable[tuple[Flow, float]]:
        """Yield the bandwidth that the network leaves to each running flow from now on."""


class Sharing:
    """All running flows and their rates; *schedule* is called with a time and an action for that time."""

    def __init__(self, schedule: Callable[[float, Act], None]) -> None:
        self._schedule = schedule
        self.dirty: dict[Site, None] = {}  # hosts whose shares must be computed anew before time passes
        self.network: UpperNetwork | None = None  # set before the first flow that has a ring
        self._network_dirty = False

    def begin(self, flow: Flow, at_s: float, *, seconds: float | None = None, need_gb: float | None = None) -> None:
        """Start a flow that lasts *seconds*, or until it has carried *need_gb*."""
        shared = False
        for site, resources, _ in flow.shares:
            users = site.users
            for index in resources:
                users[index] += 1
            site.flows.append(flow)
            if site.capacity_limits or any(users[index] > 1 for index in resources):
                shared = True
                self.dirty[site] = None
        if flow.ring is not None and self.network is not None:
            self.network.begin(flow, flow.ring)
            self.mark_network_dirty(flow)
            shared = True
        flow.live = True
        flow.began_s = flow.since_s = at_s
        flow.need_gb = need_gb
        flow.rate_gbps = flow.ceiling_gbps
        if seconds is not None:
            flow.end_s = at_s + seconds
            self._schedule(flow.end_s, partial(self._due, flow))
        elif not shared:
            self._expect_end(flow, at_s)

    def end(self, flow: Flow, at_s: float) -> None:
        """Stop a flow now: count what it carried, and let go of its capacities."""
        carried_gb = flow.carried_gb(at_s)
        for site, resources, weight in flow.shares:
            site.carried[resources].add(flow, weight, at_s)
        if not flow.steady:
            flow.sent_gb = carried_gb
        flow.since_s = at_s
        flow.end_s = None
        flow.live = False
        for site, resources, _ in flow.shares:
            users = site.users
            for index in resources:
                users[index] -= 1
                if users[index]:
                    self.dirty[site] = None
            site.flows.remove(flow)
        if flow.ring is not None and self.network is not None:
            self.network.end(flow, carried_gb)
            self.mark_network_dirty(flow)

    def network_changed(self) -> None:
        """Give every flow over the network a new rate: its routes or links have changed."""
        for flow in () if self.network is None else self.network.running:
            self.mark_network_dirty(flow)

    def mark_network_dirty(self, flow: Flow) -> None:
        """Mark the network's shares as changed with this flow; one of its hosts represents it among the dirty ones."""
        self._network_dirty = True
        self.dirty[flow.shares[0][0]] = None

    def settle(self, at_s: float) -> None:
        """Compute the shares of every host where something began or ended at this instant."""
        if self._network_dirty and self.network is not None:
            self._network_dirty = False
            for flow, limit_gbps in self.network.limits_gbps(at_s):
                if limit_gbps != flow.limit_gbps:
                    flow.limit_gbps = limit_gbps
                    self.dirty[flow.shares[0][0]] = None
        dirty = self.dirty
        self.dirty = {}
        for site in dirty:
            for flow in site.flows:
                rate_gbps = _rate(flow)
                if rate_gbps <= 0.0 or flow.silent:
                    rate_gbps = flow.real_rate_gbps(rate_gbps, at_s)
                if rate_gbps != flow.rate_gbps:
                    self._change(flow, rate_gbps, at_s)
                if flow.need_gb is not None:
                    self._expect_end(flow, at_s)

    def _change(self, flow: Flow, rate_gbps: float, at_s: float) -> None:
        if at_s > flow.since_s:
            flow.sent_gb = flow.carried_gb(at_s)
            flow.since_s = at_s
            flow.steady = False
        flow.rate_gbps = rate_gbps

    def _expect_end(self, flow: Flow, at_s: float) -> None:
        assert flow.need_gb is not None
        if flow.rate_gbps <= 0:  # the network changed and left it no way: it waits
            flow.end_s = None
            return
        end_s = at_s + max(0.0, flow.need_gb - flow.carried_gb(at_s)) / flow.rate_gbps
        if flow.end_s is None or abs(end_s - flow.end_s) > 1e-9 * end_s:
            flow.end_s = end_s
            self._schedule(end_s, partial(self._due, flow))

    def _due(self, flow: Flow, at_s: float) -> None:
        """
        End a flow that was expected to end now; do nothing if it ended before, or is now expected at another time.
        """
        if flow.end_s == at_s:
            self.end(flow, at_s)
            flow.finish(at_s)


def _rate(flow: Flow) -> float:
    """Return the rate of a flow: the least of its shares."""
    rate_gbps = min(flow.ceiling_gbps, flow.limit_gbps)
    for site, resources, weight in flow.shares:
        users, capacities = site.users, site.capacities
        for index in resources:
            if users[index] > 1 and not (flow.queued and users[index] == users[resources[-1]]):
                rate_gbps = min(rate_gbps, capacities[index] * weight / users[index])
        for index in site.capacity_limits:
            if index in resources:
                rate_gbps = min(rate_gbps, site.left_gbps(index) * weight / users[index])
    return rate_gbps


class Site:
    """The state of one host; made when the first command reaches it."""

    def __init__(self, host: Host, layout: Layout, faults: HostFaults) -> None:
        self.host = host
        self.layout = layout
        self.faults = faults
        self.name_hash = text_hash(host.name)
        self.capacities = _degraded(layout, faults.factors)
        self.users = [0] * len(layout.capacities)
        self.flows: list[Flow] = []
        self.carried = defaultdict[tuple[int, ...], CarriedLoad](CarriedLoad)  # load of ended flows, by capacities
        self.down: set[str] = set()  # RNICs whose port was taken down since the start
        # What a port or a passing fault leaves of a capacity now.
        self.capacity_limits: dict[int, dict[str, float]] = {}
        self.swings: dict[str, float] = {}  # modules that warm and cool by turns, and since when
        self.heat: dict[str, Drift] = {}  # parts that run or ran hot: degrees beyond their load
        self.servers: dict[int, object] = {}  # TCP port to its listener, present or future
        self.starts = Counter[int]()  # number of starts of each command here, by its hash

    @property
    def running(self) -> tuple[Flow, ...]:
        """Return every flow here once; *flows* repeats a flow that uses several sets of capacities."""
        return tuple(dict.fromkeys(self.flows))

    def loads(self, at_s: float) -> Iterator[tuple[tuple[int, ...], CarriedLoad]]:
        """Yield capacities with their load: ended flows, and running ones as if they ended now."""
        yield from self.carried.items()
        for flow in self.running:
            for where, resources, weight in flow.shares:
                if where is self:
                    load = CarriedLoad()
                    load.add(flow, weight, at_s)
                    yield resources, load

    def through(self, indexes: Set[int]) -> Iterator[Flow]:
        """Yield the live flows that use one of these capacities of this host."""
        for flow in self.running:
            if flow.live and any(where is self and not indexes.isdisjoint(used) for where, used, _ in flow.shares):
                yield flow

    def limit_capacity(self, by: str, index: int, left_gbps: float | None) -> None:
        """Limit a capacity to *left_gbps* from now on, on behalf of *by*; None ends that limit."""
        others = {who: left for who, left in self.capacity_limits.pop(index, {}).items() if who != by}
        held = others if left_gbps is None else {**others, by: left_gbps}
        if held:
            self.capacity_limits[index] = held

    def left_gbps(self, index: int) -> float:
        """Return how much of a capacity is left now."""
        return min(self.capacity_limits[index].values()) if index in self.capacity_limits else self.capacities[index]

    def set_faults(self, faults: HostFaults, slow: HostFaults) -> None:
        """Set other faults from now on; *slow* holds those that also slow flows that already run."""
        self.faults = faults
        self.capacities = _degraded(self.layout, faults.factors)
        left = _degraded(self.layout, slow.factors) if slow.factors else self.capacities
        for name, index in self.layout.index.items():
            gone = name in faults.troubles or name.partition(":")[0] in faults.troubles
            left_gbps = 0.0 if gone else left[index] if left[index] < self.capacities[index] else None
            self.limit_capacity("fault", index, left_gbps)

    def ceiling_gbps(self, path: Path) -> float:
        """Return what a transfer alone on this path gets in this host, with its faults."""
        factors = self.faults.factors
        if not factors:
            return path.ceiling_gbps
        found = min(path.ceiling_gbps, *(self.capacities[index] for index in path.resources))
        found = min(found, factors.get("", 1.0) * path.ceiling_gbps)
        for part in path.parts:
            # A slow path keeps a fraction of what it gives when healthy; a slow part, of what an RNIC can ask.
            if part in factors:
                found = min(found, factors[part] * (path.ceiling_gbps if "->" in part else path.rnic_gbps))
        return found

    def trouble(self, path: Path) -> str | None:
        """Return ``broken`` or ``hanging`` when a part of the path is, else None; hanging hides broken."""
        kinds = {self.trouble_of(part) for part in path.parts}
        return "hanging" if "hanging" in kinds else "broken" if kinds & GONE else None

    def trouble_of(self, component: str) -> str | None:
        """Return what is wrong with one component; None when nothing is or it is merely slow."""
        trouble = self.faults.troubles.get(component)
        return "broken" if trouble is None and component in self.down else trouble

    def lacks(self, component: str) -> bool:
        """Return whether a component is missing for everybody: broken or absent."""
        return self.trouble_of(component) in GONE

    def feels(self, kind: str, component: str) -> bool:
        """Return whether a component has a fault of a kind that blocks nothing."""
        return component in self.faults.felt[kind]

    def present_gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs that are there, in the order in which the driver and CUDA number them, without a gap."""
        gpus = self.layout.platform.gpus
        if "absent" not in self.faults.troubles.values():
            return gpus
        return tuple(gpu for gpu in gpus if self.trouble_of(gpu.name) != "absent")


def _degraded(layout: Layout, factors: Mapping[str, float]) -> list[float]:
    """
    Return the capacities; a slow part keeps *factor* of what one RNIC can ask of it (NVLink: of its own capacity).
    """
    if not factors:
        return layout.capacities
    capacities = list(layout.capacities)
    whole = factors.get("", 1.0)
    for name, index in layout.index.items():
        component, way = name.split(":")
        if way == "nvlink":
            factor = factors.get(f"{component}:nvlink")
            full_gbps = capacities[index]
        elif way in WAYS:
            factor = min(factors.get(f"{component}:leaf", 1.0), factors.get(f"{component}{WAYS[way]}", 1.0))
            full_gbps = capacities[index]
        else:
            factor = factors.get(component)
            full_gbps = min(capacities[index], layout.top_rnic_gbps)
        if factor is not None:
            capacities[index] = factor * full_gbps
        capacities[index] *= whole
    return capacities
