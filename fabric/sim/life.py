"""Faults that come over running hosts and leave them again, and when lemons cause them."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import exp, floor, inf, log, pi, sin

from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.model.topology import Topology
from fabric.sim.faults import KINDS, PORT, WELL, HostFaults, faults_by_host, happens, is_above_leaves, require_passing
from fabric.sim.hashing import between, mix64, text_hash, uniform, word
from fabric.sim.hosts import Hosts
from fabric.sim.hosts.site import SWING_C, swung_c
from fabric.sim.hosts.temperature import warm
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.phy import Ports
from fabric.sim.phy.cabling import ends_named
from fabric.sim.phy.quality import UNWORN, Wear

DAY_S = 86400.0

IN_EPISODES = ("lemon", "flapping", "dirty")
"""Kinds that cause other faults, now and then."""


def _named(seed: int, *names: str | int) -> int:
    """Return the 64 bits that name a stream: the seed, and what the stream is for."""
    bits = mix64(seed)
    for name in names:
        bits = mix64(bits ^ (text_hash(name) if isinstance(name, str) else mix64(name)))
    return bits


class Draws:
    """One stream of random numbers; every number is drawn once, in order."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._drawn = 0

    def uniform(self) -> float:
        """Draw a number above 0 and below 1."""
        self._drawn += 1
        return ((word(self._base, self._drawn) >> 11) + 0.5) / 9007199254740992.0  # 2^53

    def exponential(self, mean: float) -> float:
        """Draw an exponentially distributed number."""
        return -mean * log(self.uniform())

    def geometric(self, mean: float) -> int:
        """Draw 1, 2, ... with this mean, which is at least 1."""
        return 1 if mean <= 1.0 else 1 + floor(log(self.uniform()) / log(1.0 - 1.0 / mean))

    def one_of(self, count: int) -> int:
        """Draw 0 up to *count* - 1, each equally likely."""
        return int(self.uniform() * count)


def _bursts(base: int, per_s: float, window_s: tuple[float, float], longest_s: float) -> Iterator[tuple[Draws, float]]:
    """Yield the start of each burst that can reach into a window, with the draws that decide its contents."""
    if per_s <= 0.0:
        return
    first, last = floor((window_s[0] - longest_s) / DAY_S), floor(window_s[1] / DAY_S)
    for epoch in range(first, last + 1):
        draws = Draws(_named(base, epoch))
        at_s = epoch * DAY_S + draws.exponential(1.0 / per_s)
        number = 0
        while at_s < min((epoch + 1) * DAY_S, window_s[1]):
            if at_s >= window_s[0] - longest_s:
                yield Draws(_named(base, epoch, number)), at_s
            number += 1
            at_s += draws.exponential(1.0 / per_s)


EPISODES_MEAN = 3.0
"""Mean number of episodes in one burst; choice."""

EPISODES_S = 600.0
"""Time over which the episodes of a burst spread; choice."""

FLAP_SHARE = 0.5
"""Fraction of episodes that are flaps; the others are bit errors. Choice."""

FLAP_S = (1.0, 10.0)
"""Range of how long a flap lasts: "several seconds" (arXiv 2402.15627, 6.3)."""

ERRORS_MEAN_S = 60.0
"""Mean time that errors last; choice."""

WORST_BER, LEAST_BER = 1e-5, 1e-8
"""Bit error ratios behind the FEC, evenly spread on a log scale between halving a link and hardly showing. Choice."""


def episodes(
    topology: Topology, lemons: Iterable[Fault], *, seed: int, per_hour: float, window_s: tuple[float, float]
) -> tuple[TimedFault, ...]:
    """
    Return the faults that lemons cause in a window, in order of time; each lemon has *per_hour* episodes on average.
    """
    found: list[TimedFault] = []
    for lemon in lemons:
        dirty = lemon.kind == "dirty"
        found += _of_dirt(lemon, window_s) if dirty else _of_lemon(topology, lemon, seed, per_hour, window_s)
    return tuple(sorted(found, key=lambda one: (one.at_s, one.fault.component)))


def _of_lemon(
    topology: Topology, lemon: Fault, seed: int, per_hour: float, window_s: tuple[float, float]
) -> Iterator[TimedFault]:
    component = _bad_part(topology, lemon.component.removesuffix(PORT), seed)
    base = _named(seed, "lemon", lemon.component)
    for draws, began_s in _bursts(base, per_hour / 3600.0 / EPISODES_MEAN, window_s, EPISODES_S):
        for _ in range(draws.geometric(EPISODES_MEAN)):
            at_s = began_s + draws.uniform() * EPISODES_S
            flap = draws.uniform() < FLAP_SHARE or lemon.kind == "flapping"
            flap_s = FLAP_S[0] + draws.uniform() * (FLAP_S[1] - FLAP_S[0])
            errors_s = max(1.0, draws.exponential(ERRORS_MEAN_S))
            ber = LEAST_BER * (WORST_BER / LEAST_BER) ** draws.uniform()
            if not window_s[0] <= at_s < window_s[1]:
                continue
            if flap:
                yield TimedFault(at_s, flap_s, Fault(component, "broken"))
            else:
                yield TimedFault(at_s, errors_s, Fault(component, "bit_errors", ber))


DIRT_BER, DIRT_DECADES = 2e-15, 1.5
"""Bit error ratio behind all retries of a cold dirty connector, and by how many decades it rises when warm; choice."""

WARMS_S = 5400.0
"""Time constant after which a switch and its modules are warm; then the hall warms and cools once a day. Choice."""


def _of_dirt(dirty: Fault, window_s: tuple[float, float]) -> Iterator[TimedFault]:
    """Yield bit errors that grow with heat, renewed every ten minutes."""
    at_s = window_s[0]
    while at_s < window_s[1]:
        warm = 1.0 - exp(-at_s / WARMS_S) + 0.1 * sin(2.0 * pi * at_s / DAY_S)
        ber = DIRT_BER * 10.0 ** (DIRT_DECADES * warm)
        yield TimedFault(at_s, 600.0, Fault(dirty.component.removesuffix(PORT), "symbol_errors", ber))
        at_s += 600.0


def _bad_part(topology: Topology, component: str, seed: int) -> str:
    """Return the one bad RNIC of a host, always the same; any other component is returned as it is."""
    host = topology.hosts.get(component)
    if host is None or not host.platform.rnics:
        return component
    rnics = host.platform.rnics
    return f"{component}/{rnics[Draws(_named(seed, 'bad part', component)).one_of(len(rnics))].device}"


ONE_IN = 50
ERRATIC_SHARE = (0.5, 0.75)
"""The fraction of its tests in which a bad host of a real cluster was slow (11 of 15, 4 of 8)."""

FADED_SHARE = 0.05  # what is left of a link that has faded for long


def _left(timed_fault: TimedFault, bits: int, at_s: float) -> float:
    """Return the fraction of its bandwidth that a transfer has which begins now."""
    fault, lost = timed_fault.fault, 1.0 - timed_fault.fault.factor
    if fault.kind == "fading":
        return max(FADED_SHARE, 1.0 - lost * (at_s - timed_fault.at_s) / DAY_S)
    if fault.kind == "heat_sick":
        return 1.0 - lost * swung_c(timed_fault.at_s, at_s) / SWING_C
    name = text_hash(fault.component)
    chance = word(bits ^ name, 0)
    comes = chance % ONE_IN == 0 if fault.kind == "dipping" else uniform(chance) < between(*ERRATIC_SHARE, name)
    return fault.factor if comes else 1.0


HOT_RAW_BER = 1.4e-3
"""What a hot module adds to the error ratio before the FEC: retry then costs a tenth of the bandwidth; choice."""

THROTTLED = 0.8
"""The fraction of its bandwidth, and of its clock, that a hot GPU keeps; choice."""


class Passing:
    """
    The passing faults of a rack in order of time, besides those that it always has.

    Of several on one component, the last to come is felt.
    """

    def __init__(self, hosts: Hosts, ports: Ports, timeline: Timeline, mock: MockSettings, *, seed: int) -> None:
        self._hosts, self._ports, self._timeline = hosts, ports, timeline
        self._topology, self._mock, self._seed = hosts.topology, mock, seed
        self._here: dict[str, Sequence[TimedFault]] = {}  # by component, in the order in which they came
        self._transfer_faults: dict[str, TimedFault] = {}  # by component: faults that each transfer feels by itself
        self._heap: list[tuple[float, int, TimedFault, bool]] = []  # when, in which order, what, whether it comes
        self._made = 0
        self._lemons = tuple(one for one in mock.faults if one.kind in IN_EPISODES)
        for lemon in self._lemons:
            if lemon.kind == "lemon":
                require_passing(lemon, self._topology)
        self._known_s = 0.0 if self._lemons else inf
        self._add(TimedFault(0.0, inf, one) for one in mock.faults if happens(one) and one.kind != "lemon")
        self._add(mock.timed_faults)

    def next_s(self) -> float:
        """Return when the next fault comes or goes; infinite when never again."""
        return min(self._heap[0][0], self._known_s) if self._heap else self._known_s

    def step(self) -> None:
        """Do what is due next; the rack's time must have reached it."""
        if self._known_s <= self.next_s():
            self._look_ahead()
            return
        at_s, _, one, comes = heappop(self._heap)
        others = [other for other in self._here.get(one.fault.component, ()) if other is not one]
        if comes and one.duration_s < inf:
            self._add([one], ended_s=at_s + one.duration_s)
        self.set(one.fault.component, [*others, one] if comes else others, at_s)

    def _look_ahead(self) -> None:
        """Compute the episodes of the next day."""
        window_s = (self._known_s, self._known_s + DAY_S)
        self._known_s = window_s[1]
        per_hour = self._mock.lemon_per_hour
        self._add(episodes(self._topology, self._lemons, seed=self._seed, per_hour=per_hour, window_s=window_s))

    def _add(self, found: Iterable[TimedFault], *, ended_s: float | None = None) -> None:
        """Schedule faults to come at their times; with *ended_s*, schedule them to end then."""
        for one in found:
            self._made += 1
            at_s = one.at_s if ended_s is None else ended_s
            heappush(self._heap, (at_s, self._made, one, ended_s is None))

    def set(self, component: str, here: Sequence[TimedFault], at_s: float) -> None:
        """
        Put these faults, the last of which is felt, on a component from now on, besides those it always has.

        Raises ValueError for what the rack cannot have. Slow paths (``mlx5_0->gpu4``) are felt only by flows that start
        later.
        """
        if here:
            require_passing(here[-1].fault, self._topology)
        before = self._here.pop(component, ())
        if here:
            self._here[component] = here
        if not here and not before:
            return
        fault, name = (here or before)[-1].fault, component.partition("/")[0]
        if KINDS[fault.kind].each:
            self._turn_transfer_fault((here or before)[-1], comes=bool(here))
        elif is_above_leaves(fault, self._topology):
            self._turn_cables(fault, at_s, comes=bool(here))
        elif name in self._topology.hosts:
            self._turn(name, at_s)
        else:
            for host in self._topology.hosts.values():
                if component in host.leaves:
                    self._turn(host.name, at_s)

    def _turn_transfer_fault(self, timed_fault: TimedFault, *, comes: bool) -> None:
        """Make each transfer of a part feel this fault from now on, or stop that."""
        component = timed_fault.fault.component
        self._transfer_faults.pop(component, None)
        if comes:
            self._transfer_faults[component] = timed_fault
        if timed_fault.fault.kind == "heat_sick":
            host, _, part = component.partition("/")
            swings, device = self._hosts.site(host).swings, part.removesuffix(PORT)
            swings.pop(device, None)
            if comes:
                swings[device] = timed_fault.at_s

    def left(self, ends: Iterable[tuple[str, str]], bits: int, at_s: float, *, inside: bool = False) -> float:
        """
        Return the fraction that faults of the worst of these RNICs (host, device) and their hosts leave to a new
        transfer.

        With *inside* no cable is crossed.
        """
        least = 1.0
        for host, device in ends if self._transfer_faults else ():
            for part in (host, f"{host}/{device}", *(() if inside else (f"{host}/{device}{PORT}",))):
                if part in self._transfer_faults:
                    least = min(least, _left(self._transfer_faults[part], bits, at_s))
        return least

    def _turn_cables(self, fault: Fault, at_s: float, *, comes: bool) -> None:
        """
        Break or mend cables between switches through their ports, which the routing watches.

        A tenant leaves the cables as they are.
        """
        if fault.kind == "tenant":
            self._ports.uplinks.tenant(fault.component, fault if comes else None, at_s)
            return
        cable = HostFaults()
        if comes:
            cable.add("", fault.kind, factor=fault.factor)
        for end in ends_named(self._ports.cabling, fault.component):
            self._ports.set_cable_fault(end, at_s, broken=cable.gone(""), wear=_worn(cable, ""))

    def _turn(self, name: str, at_s: float) -> None:
        """Compute the faults of a host anew, and inform everything that depends on them."""
        hosts = self._hosts
        host = self._topology.hosts[name]
        places = {name, *host.leaves}
        always = [one for one in self._mock.faults if not happens(one)]
        given, here = (
            [one for one in faults if one.component.partition("/")[0] in places]
            for faults in (always, [several[-1].fault for several in self._here.values()])
        )
        kind_before, sick_before = hosts.kind(name), self._sick(name, hosts.faults.get(name, WELL))
        others = [*given, *(one for one in here if not _lowers_capacity(one))]
        after = faults_by_host(self._topology, others).get(name, WELL)
        hosts.faults[name] = after
        slow = [*(one for one in here if _lowers_capacity(one)), *_throttled(name, after)]
        site = hosts.site(name)
        site.set_faults(after, faults_by_host(self._topology, slow).get(name, WELL))
        warm(site, after.felt["hot"].keys(), at_s)
        for device, state in self._sick(name, after).items():
            if state != sick_before[device]:
                end = self._ports.cabling.adapter_end(name, device)
                self._ports.set_cable_fault(end, at_s, broken=state[0], wear=state[1])
        parts = (part for gpu in host.platform.gpus for part in (gpu.name, f"{gpu.name}:nvlink"))
        lost = {part.partition(":")[0] for part in parts if site.lacks(part)}
        gone = {place for part, place in site.layout.index.items() if part.partition(":")[0] in lost}
        for flow in site.through(gone):  # programs that use such a GPU end, as their tool does
            flow.lost_gpu(site, at_s)
        if hosts.kind(name) not in (kind_before, None):
            self._timeline.silence(site, at_s)
        self._timeline.sharing.dirty[site] = None

    def _sick(self, name: str, faults: HostFaults) -> dict[str, tuple[bool, Wear]]:
        """Return for every RNIC whether its port is dead, and how worn its cable is."""
        devices = self._topology.hosts[name].platform.rnic_by_device
        return {device: (faults.gone(device), _worn(faults, device)) for device in devices}


def _worn(faults: HostFaults, component: str) -> Wear:
    """Return what faults of a component add to the errors of its cable."""
    raw = HOT_RAW_BER if component in faults.felt["hot"] else 0.0
    effective, symbol = (faults.felt[kind].get(component, 0.0) for kind in ("bit_errors", "symbol_errors"))
    return Wear(raw, effective, symbol) if raw or effective or symbol else UNWORN


def _lowers_capacity(fault: Fault) -> bool:
    """
    Return whether a fault lowers capacities, so that running flows feel it too; a slow path has no capacity of its own.
    """
    return fault.kind == "slow" and "->" not in fault.component


def _throttled(host: str, faults: HostFaults) -> list[Fault]:
    hot = sorted(part for part in faults.felt["hot"] if part.startswith("gpu"))
    return [Fault(f"{host}/{part}{way}", "slow", THROTTLED) for part in hot for way in ("", ":nvlink")]
