"""What can be wrong with which part of the simulated rack, in one table, and what is wrong with which host."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fabric.model.inventory import MISSET_ENDS, MISSET_HOSTS, MISSET_KINDS, MISSET_SWITCHES, OF_CABLES, Fault
from fabric.model.topology import Platform, Topology

PORT = ":port"
"""Behind the name of an RNIC: its cable, which a loopback inside the host does not use."""

WAYS = MappingProxyType({"out": ":tx", "in": ":rx"})
"""The same of one direction of the cable, as the host sees it, by what its layout calls it."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """
    One kind of fault.

    *parts*: what can have it, words of ``_part_of``; *passes_above*: above the leaves for a while, too. *ratio*: its
    number is one of wrong bits, which no file gives. *comes*: it is no state from the beginning, but happens in time.
    *blocks*: nothing passes. *each*: every transfer feels it by itself (``life.py``).
    """

    parts: str
    passes_above: bool = False
    ratio: bool = False
    comes: bool = False
    blocks: bool = False
    each: bool = False


KINDS: Mapping[str, FaultKind] = MappingProxyType(
    {
        "slow": FaultKind("host rnic gpu part cable way leaf above"),
        # A part or path that is not there carries nothing: broken.
        "broken": FaultKind("host rnic gpu part leaf above", passes_above=True, blocks=True),
        "hanging": FaultKind("host rnic gpu part leaf", blocks=True),
        "absent": FaultKind("host rnic gpu part leaf", blocks=True),
        "garbage": FaultKind("host", blocks=True),
        "lemon": FaultKind("", comes=True),  # it is other faults, now and then (life.py)
        "hot": FaultKind("rnic gpu", comes=True),
        "bit_errors": FaultKind("rnic", passes_above=True, ratio=True, comes=True),  # behind the FEC
        # The same behind the link's own retries; neither is in an inventory.
        "symbol_errors": FaultKind("rnic", passes_above=True, ratio=True, comes=True),
        # Of cables, as their ends see them (phy/cabling.py, life.py).
        "dark_lane": FaultKind("cable above"),
        "half_width": FaultKind("cable above"),
        "batch": FaultKind("above"),
        "dirty": FaultKind("cable above"),
        "flapping": FaultKind("cable above"),
        # Others' flows on a cable that is well (net/network.py): nothing is wrong with it.
        "tenant": FaultKind("above", passes_above=True),
        "grey": FaultKind("above"),  # forwards nothing, and neither its ports nor the routing tell
        "swapped": FaultKind("cable above"),  # with the next one: phy/cabling.py; what is measured does not feel it
        "replaced": FaultKind("rnic gpu cable"),  # another serial number than it was delivered with
        "outdated": FaultKind("rnic"),  # an older firmware
        "pausing": FaultKind("rnic"),  # it pauses its leaf for ever: nothing comes in, and what waits for it stays
        # RoCE: one end of a cable is set otherwise (phy/qos.py); only what is reported differs.
        **{kind: FaultKind("rnic cable above") for kind in MISSET_ENDS},
        **{kind: FaultKind("rnic") for kind in MISSET_HOSTS},
        **{kind: FaultKind("cable above") for kind in MISSET_SWITCHES},
        "erratic": FaultKind("host rnic cable", comes=True, each=True),
        "dipping": FaultKind("rnic cable", comes=True, each=True),
        "fading": FaultKind("rnic cable", comes=True, each=True),
        "heat_sick": FaultKind("rnic cable", comes=True, each=True),
    }
)
"""Every kind by its name in inventories."""

GONE = frozenset({"broken", "absent"})
"""Kinds of what is not there for anybody; what hangs takes in and never answers."""

HALF = 0.5
"""What two of four lanes carry."""

NEXT_TO_NOTHING = 1e-12
"""What is left where a port lets nothing in: not a word in a minute at 400 Gb/s."""

IN_EPISODES = ("lemon", "flapping", "dirty")
"""Kinds that are other faults, now and then."""

_FOR_EVER = (*OF_CABLES, *MISSET_KINDS)

LINK_KINDS: Mapping[str, tuple[float, float] | None] = MappingProxyType(
    dict(slow=(1e-6, 1.0), down=None, ber=(0.0, 0.5), effective_ber=(0.0, 0.5), loss=(0.0, 1.0))
)
"""Kinds of faults of single links, with the range of their number; at a ratio of 0.5 every bit is a coin toss."""

_PART_WORDS = {"cable": "cable of an RNIC", "way": "direction of a cable", "above": "switch or cable above the leaves"}
_BOTH, _ONE = "--", "->"


@dataclass(frozen=True, slots=True)
class LinkFault:
    """
    One fault on one or more directed links, as *text* asked for it.

    *kind* and *value*: ``slow`` keeps that fraction of the capacity; ``down`` carries nothing and is routed around,
    ``grey`` likewise and is not;
    ``tenant`` loads them with others' flows, which leave that fraction to one flow;
    ``ber`` is the bit error rate before forward error correction, ``effective_ber`` the one after it; ``loss`` is the
    fraction of packets dropped at full speed.
    """

    text: str
    kind: str
    value: float
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CableEnds:
    """``su0-leaf3--spine2``, or one direction of it, ``su0-leaf3->spine2``; all parallel cables of the two."""

    one: str
    other: str
    both: bool


def cable_ends(component: str, names: Container[str]) -> CableEnds | None:
    """The ends that a component names; None when it names no cable. Names may hold the mark: *names* decides."""
    mark = _ONE if _ONE in component else _BOTH
    if "/" in component or mark not in component:
        return None
    parts = component.split(mark)
    splits = [(mark.join(parts[:cut]), mark.join(parts[cut:])) for cut in range(1, len(parts))]
    one, other = next((pair for pair in splits if pair[0] in names and pair[1] in names), splits[0])
    return CableEnds(one, other, mark == _BOTH)


def is_above_leaves(fault: Fault, topology: Topology) -> bool:
    """Whether the fault is of a switch above the leaves or of a cable between switches."""
    if fault.component in topology.hosts:
        return False
    switch = topology.switches.get(fault.component)
    if switch is not None:
        return switch.tier != "leaf"
    return cable_ends(fault.component, topology.switches) is not None


@dataclass(slots=True)
class HostFaults:
    """
    The faults of one host.

    *troubles* holds what is broken, hanging or absent by component name inside the host, which is "" itself, *felt*
    everything else with its value, kind by kind; ``mlx5_0:leaf`` is the leaf's side of that RNIC's cable.
    """

    troubles: dict[str, str] = field(default_factory=dict)
    felt: dict[str, dict[str, float]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    @property
    def host_kind(self) -> str | None:
        """What is wrong with the host itself."""
        return self.troubles.get("")

    def gone(self, component: str) -> bool:
        """Whether a component is not there, or the whole host."""
        return not GONE.isdisjoint((self.host_kind, self.troubles.get(component)))

    @property
    def factors(self) -> dict[str, float]:
        """What is slow, and how much is left."""
        return self.felt["slow"]

    def add(self, component: str, kind: str, *, factor: float) -> None:
        """Note one fault; of several of a kind on the same component the worst counts."""
        about = KINDS[kind]
        if about.blocks:
            self.troubles[component] = kind
        elif kind == "half_width":
            self.add(component, "slow", factor=HALF)
        elif kind == "pausing":
            self.add(f"{component}{WAYS['in']}", "slow", factor=NEXT_TO_NOTHING)
        elif not about.each:
            here = self.felt[kind]
            here[component] = (min if kind == "slow" else max)(factor, here.get(component, factor))


WELL = HostFaults()
"""Of every host with which nothing is wrong; altered by nobody."""


def faults_by_host(topology: Topology, faults: Iterable[Fault]) -> dict[str, HostFaults]:
    """Host name to what is wrong with it; raises ValueError for a component or kind that the rack cannot have."""
    found: dict[str, HostFaults] = {}
    for fault in faults:
        if is_above_leaves(fault, topology):
            _require(fault, "above")
            continue  # no host sees it: the network does
        if fault.component in topology.switches:
            _add_switch(found, topology, fault)
            continue
        name, _, part = fault.component.partition("/")
        host = topology.hosts.get(name)
        if host is None:
            raise ValueError(f"{fault.component}: there is no such host or switch")
        _require(fault, _part_of(host.platform, part, fault))
        held = found.setdefault(name, HostFaults())
        at = f"{part.removesuffix(PORT)}:leaf" if part.endswith(PORT) else part
        held.add(at, fault.kind, factor=fault.factor)
    return found


def happens(fault: Fault) -> bool:
    """Whether it is no state from the beginning, but happens in time."""
    return fault.kind in KINDS and KINDS[fault.kind].comes


def require_passing(fault: Fault, topology: Topology) -> None:
    """Raise ValueError for what cannot come over a running rack; a lemon is a host, an RNIC or a cable of switches."""
    name, _, part = fault.component.partition("/")
    if fault.kind in _FOR_EVER:
        raise ValueError(f"{fault.component}: {fault.kind} is there from the beginning, or not at all")
    if fault.kind == "lemon":
        host, ends = topology.hosts.get(name), cable_ends(fault.component, topology.switches)
        cable = ends is not None and ends.one in topology.switches and ends.other in topology.switches
        if not cable and (host is None or (part and part not in host.platform.rnic_by_device)):
            raise ValueError(f"{fault.component}: only a host, an RNIC or a cable between switches can be a lemon")
    elif not is_above_leaves(fault, topology):
        faults_by_host(topology, (fault,))
    elif not KINDS[fault.kind].passes_above:
        raise ValueError(f"{fault.component}: what is above the leaves can be broken for a while, not {fault.kind}")


def _add_switch(found: dict[str, HostFaults], topology: Topology, fault: Fault) -> None:
    """A leaf's fault is seen by every RNIC on it."""
    _require(fault, "leaf")
    for host in topology.hosts.values():
        for device in (one.device for one in host.platform.rnics if host.leaf(one.rail) == fault.component):
            held = found.setdefault(host.name, HostFaults())
            if fault.kind == "slow":
                held.add(f"{device}:leaf", "slow", factor=fault.factor)
            else:
                held.add(device, "hanging" if fault.kind == "hanging" else "broken", factor=1.0)


def parts_of(platform: Platform) -> dict[str, str]:
    """Every part of a host that can be bad by itself, and the paths from its RNICs; each with its word of the table."""
    rnics, gpus = platform.rnic_by_device, platform.gpu_by_name
    groups = (f"numa{number}-gpus" for number in sorted({gpu.numa for gpu in platform.gpus}))
    ends = (*platform.endpoints, *groups)
    others = (
        *(f"{gpu}:nvlink" for gpu in gpus),
        *(f"numa{number}" for number in range(platform.numa_nodes)),
        *(switch.name for switch in platform.pcie_switches),
        *(f"{device}->{end}" for device in rnics for end in ends),
    )
    return {
        **dict.fromkeys(rnics, "rnic"),
        **{f"{device}{PORT}": "cable" for device in rnics},
        **{f"{device}{way}": "way" for device in rnics for way in WAYS.values()},
        **dict.fromkeys(gpus, "gpu"),
        **dict.fromkeys(others, "part"),
    }


def _part_of(platform: Platform, part: str, fault: Fault) -> str:
    """What the component is, by a word of the table."""
    found = parts_of(platform).get(part) if part else "host"
    if found is None:
        raise ValueError(f"{fault.component}: there is no such component")
    return found


def _require(fault: Fault, part: str) -> None:
    can = [name for name, kind in KINDS.items() if part in kind.parts.split()]
    if fault.kind not in can:
        written = (name for name in can if not KINDS[name].ratio)
        reason = f"a {_PART_WORDS.get(part, part)} cannot be {fault.kind!r}; it can be {', '.join(written)}"
        raise ValueError(f"{fault.component}: {reason}")
