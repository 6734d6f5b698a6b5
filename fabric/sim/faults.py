"""The table of faults: what can be wrong with which part of the simulated rack; and the faults of each host."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fabric.model.inventory import MISSET_ENDS, MISSET_HOSTS, MISSET_KINDS, MISSET_SWITCHES, OF_CABLES, Fault
from fabric.model.topology import Platform, Topology

PORT = ":port"
"""Suffix of an RNIC's name that means its cable, which a loopback inside the host does not use."""

WAYS = MappingProxyType({"out": ":tx", "in": ":rx"})
"""
Suffixes that mean one direction of the cable, as the host sees it, by the name that ``Layout`` gives the direction.
"""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """
    One kind of fault.

    *parts*: which parts can have it, in words of ``_part_of``. *passes_above*: it can also pass (come and go) above the
    leaves. *ratio*: its number is a bit error ratio, which no file gives. *comes*: it is not there from the beginning,
    but happens in time. *blocks*: nothing passes. *each*: every transfer feels it by itself (``life.py``).
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
        # A part or path that is not there carries nothing, so it is broken.
        "broken": FaultKind("host rnic gpu part leaf above", passes_above=True, blocks=True),
        "hanging": FaultKind("host rnic gpu part leaf", blocks=True),
        "absent": FaultKind("host rnic gpu part leaf", blocks=True),
        "garbage": FaultKind("host", blocks=True),
        "lemon": FaultKind("", comes=True),  # it causes other faults, now and then (life.py)
        "hot": FaultKind("rnic gpu", comes=True),
        "bit_errors": FaultKind("rnic", passes_above=True, ratio=True, comes=True),  # errors behind the FEC
        # Errors behind the link's own retries; neither ratio can be set in an inventory.
        "symbol_errors": FaultKind("rnic", passes_above=True, ratio=True, comes=True),
        # Faults of cables, as the cables' ends see them (phy/cabling.py, life.py).
        "dark_lane": FaultKind("cable above"),
        "half_width": FaultKind("cable above"),
        "batch": FaultKind("above"),
        "dirty": FaultKind("cable above"),
        "flapping": FaultKind("cable above"),
        # Flows of others on a healthy cable (net/network.py).
        "tenant": FaultKind("above", passes_above=True),
        "grey": FaultKind("above"),  # forwards nothing; neither ports nor routing notice
        "swapped": FaultKind("cable above"),  # exchanged with the next cable (phy/cabling.py); no measurement feels it
        "replaced": FaultKind("rnic gpu cable"),  # has another serial number than the delivered part
        "outdated": FaultKind("rnic"),  # has an older firmware
        "pausing": FaultKind("rnic"),  # pauses its leaf for ever: nothing comes in, and what waits for it stays
        # RoCE: one end of a cable has a wrong setting (phy/qos.py); only what is reported differs.
        **{kind: FaultKind("rnic cable above") for kind in MISSET_ENDS},
        **{kind: FaultKind("rnic") for kind in MISSET_HOSTS},
        **{kind: FaultKind("cable above") for kind in MISSET_SWITCHES},
        "erratic": FaultKind("host rnic cable", comes=True, each=True),
        "dipping": FaultKind("rnic cable", comes=True, each=True),
        "fading": FaultKind("rnic cable", comes=True, each=True),
        "heat_sick": FaultKind("rnic cable", comes=True, each=True),
    }
)
"""Every kind of fault by its name in inventories."""

GONE = frozenset({"broken", "absent"})
"""Kinds of faults of a part that is missing for everybody; a hanging part accepts requests and never answers."""

HALF = 0.5
"""The fraction that two of four lanes carry."""

NEXT_TO_NOTHING = 1e-12
"""The fraction left where a port lets nothing in: less than a word a minute at 400 Gb/s."""

_FOR_EVER = (*OF_CABLES, *MISSET_KINDS)

LINK_KINDS: Mapping[str, tuple[float, float] | None] = MappingProxyType(
    dict(slow=(1e-6, 1.0), down=None, ber=(0.0, 0.5), effective_ber=(0.0, 0.5), loss=(0.0, 1.0))
)
"""Kinds of faults of single links, with the range of their value; at a ratio of 0.5 every bit is a coin toss."""

_PART_WORDS = {"cable": "cable of an RNIC", "way": "direction of a cable", "above": "switch or cable above the leaves"}
_BOTH, _ONE = "--", "->"


@dataclass(frozen=True, slots=True)
class LinkFault:
    """
    One fault on one or more directed links, as *text* asked for it.

    *kind* and *value*: ``slow`` keeps that fraction of the capacity. ``down`` carries nothing and is routed around;
    ``grey`` carries nothing and is not routed around. ``tenant`` loads the links with flows of others, which leave that
    fraction to one flow. ``ber`` is the bit error rate before forward error correction, ``effective_ber`` the one after
    it. ``loss`` is the fraction of packets dropped at full speed.
    """

    text: str
    kind: str
    value: float
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CableEnds:
    """
    The two ends of a cable (``su0-leaf3--spine2``) or of one direction of it (``su0-leaf3->spine2``).

    All parallel cables between the two are meant.
    """

    one: str
    other: str
    both: bool


def cable_ends(component: str, names: Container[str]) -> CableEnds | None:
    """
    Return the ends of a cable by its name; None for any other component. *names* decides where a name contains the
    mark.
    """
    mark = _ONE if _ONE in component else _BOTH
    if "/" in component or mark not in component:
        return None
    parts = component.split(mark)
    splits = [(mark.join(parts[:cut]), mark.join(parts[cut:])) for cut in range(1, len(parts))]
    one, other = next((pair for pair in splits if pair[0] in names and pair[1] in names), splits[0])
    return CableEnds(one, other, mark == _BOTH)


def is_above_leaves(fault: Fault, topology: Topology) -> bool:
    """Return whether the fault is on a switch above the leaves or on a cable between switches."""
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

    *troubles*: what is broken, hanging or absent, by component name inside the host; the host itself is "". *felt*:
    every other fault with its value, by kind and component; ``mlx5_0:leaf`` is the leaf's side of that RNIC's cable.
    """

    troubles: dict[str, str] = field(default_factory=dict)
    felt: dict[str, dict[str, float]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    @property
    def host_kind(self) -> str | None:
        """Return what is wrong with the host itself."""
        return self.troubles.get("")

    def gone(self, component: str) -> bool:
        """Return whether a component, or the whole host, is not there."""
        return not GONE.isdisjoint((self.host_kind, self.troubles.get(component)))

    @property
    def factors(self) -> dict[str, float]:
        """Return the slow components, and the fraction of each that is left."""
        return self.felt["slow"]

    def add(self, component: str, kind: str, *, factor: float) -> None:
        """Add one fault; of several of one kind on the same component the worst counts."""
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
"""The value for every host without faults; nothing alters it."""


def faults_by_host(topology: Topology, faults: Iterable[Fault]) -> dict[str, HostFaults]:
    """Return the faults of each host by name; raises ValueError for a component or kind that the rack cannot have."""
    found: dict[str, HostFaults] = {}
    for fault in faults:
        if is_above_leaves(fault, topology):
            _require(fault, "above")
            continue  # no host sees it; the network does
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
    """Return whether the fault happens in time, and is not there from the beginning."""
    return fault.kind in KINDS and KINDS[fault.kind].comes


def require_passing(fault: Fault, topology: Topology) -> None:
    """
    Raise ValueError for a fault that cannot come over a running rack.

    A lemon must be a host, an RNIC or a cable between switches.
    """
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
    """Add a leaf's fault to every RNIC on that leaf."""
    _require(fault, "leaf")
    for host in topology.hosts.values():
        for device in (one.device for one in host.platform.rnics if host.leaf(one.rail) == fault.component):
            held = found.setdefault(host.name, HostFaults())
            if fault.kind == "slow":
                held.add(f"{device}:leaf", "slow", factor=fault.factor)
            else:
                held.add(device, "hanging" if fault.kind == "hanging" else "broken", factor=1.0)


def parts_of(platform: Platform) -> dict[str, str]:
    """
    Return every part of a host that can be bad by itself, and the paths from its RNICs, each with its word in the
    table.
    """
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
    """Return the word in the table for the faulty component; raises ValueError if there is no such component."""
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
