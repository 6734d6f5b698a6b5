"""Names of links and faults, checked against the topology.

Links of a scenario are given by name or drawn; faults of the simulated rack come from the file or from ``--fault``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from fabric.changes.cable_fault import DrawnLinks
from fabric.changes.kind import Context
from fabric.config.platforms import unfolded
from fabric.config.problems import KeyPath, Problems
from fabric.model import gathered
from fabric.model.fields.folded import some
from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, quoted
from fabric.model.inventory import COMPONENT, FACTOR, FAULT_KIND, WHOLE, Fault
from fabric.model.part import Part
from fabric.model.topology import Link, Topology
from fabric.sim.faults import KINDS, CableEnds, cable_ends, faults_by_host, is_above_leaves, parts_of, require_passing

if TYPE_CHECKING:
    from fabric.sim.net.named_clos import NamedClos


_TEXT = re.compile(r"(?P<component>.{1,256}):(?P<kind>[^:=]+)(?:=(?P<factor>[^:=]+))?", re.DOTALL)


def fault_from_text(text: str) -> Fault:
    """Parse a ``--fault`` text, ``gpu003/mlx5_2:slow=0.5``; raise PydanticCustomError for the first problem."""
    match = _TEXT.fullmatch(text)
    if not match:
        quote = " (a shell takes > as its own: put it in quotes)" if text.endswith("-") else ""
        raise refusal(f"COMPONENT:KIND or COMPONENT:slow=FACTOR, such as gpu003/mlx5_2:slow=0.5{quote}", text)
    component, kind, factor = match.groups()
    return Fault(COMPONENT.parse(component), FAULT_KIND.parse(kind), WHOLE if factor is None else FACTOR.parse(factor))


def component_problem(fault: Fault, topology: Topology, *, for_good: bool) -> str | None:
    """
    Return why a fault's component does not exist or cannot have its kind, or None if all is well.

    The simulation itself says what a component can have; here an unknown name gets the nearest known one. *for_good* is
    False for a fault that comes over a running rack.
    """
    component, kind = fault.component, fault.kind
    named = component in topology.hosts or component in topology.switches
    ends = None if named else cable_ends(component, topology.switches)
    absent = _absent(component, topology) if ends is None else _no_cable(component, ends, topology)
    if absent:
        return absent
    if kind == "absent" and component.endswith(":nvlink"):
        return f"NVLink is part of its GPU: make it slow or broken, or the GPU absent, got {quoted(component)}"
    try:
        if KINDS[kind].comes or not for_good:
            require_passing(fault, topology)
        if not KINDS[kind].comes:
            faults_by_host(topology, (fault,))
    except ValueError as exc:
        return f"{quoted(component)}: {str(exc).partition(': ')[2]}"
    return _not_simulated(component, kind, ends, topology) if is_above_leaves(fault, topology) else None


def _absent(component: str, topology: Topology) -> str | None:
    """Return why there is no such host, leaf, part of a host or path in it."""
    name, slash, part = component.partition("/")
    host = topology.hosts.get(name)
    if host is None:
        if name in topology.switches:
            ends = "a port of a switch is named by its cable: HOST/RNIC:port (the leaf's end), LEAF--SPINE, LEAF->SPINE"
            return f"{quoted(component)}: {ends}" if slash else None
        known = [*topology.hosts] if slash else [*topology.hosts, *topology.switches]
        return f"no {'host' if slash else 'host or switch'} {quoted(name)}{nearest(name, known)}"
    parts = parts_of(host.platform)
    return None if not slash or part in parts else f"{quoted(part)} is not a part of {name}{nearest(part, parts)}"


def cable_problem(ends: CableEnds, switches: Collection[str], count: int, number: int = 0, *, hint: str = "") -> str:
    """Return why two switches that *count* cables join have no cable of this *number*; "" if they have one."""
    one, other = ends.one, ends.other
    for name in (one, other):
        if name not in switches:
            return f"no switch {quoted(name)}{nearest(name, switches)}"
    if not count:
        return f"no cable between {one} and {other}{hint}"
    return "" if number < count else f"{one} and {other} have cables #0 to #{count - 1}, got #{number}"


def rnic_problem(link: Part, devices: Mapping[str, Collection[str]]) -> str:
    """Return why ``gpu001/mlx5_0`` is not an RNIC, given the *devices* of each host; "" if it is one."""
    if link.host not in devices:
        return f"no host {quoted(link.host)}{nearest(link.host, devices)}"
    known = devices[link.host]
    return "" if link.item in known else f"{quoted(link.item)} is not an RNIC of {link.host}{nearest(link.item, known)}"


def _no_cable(component: str, ends: CableEnds, topology: Topology) -> str | None:
    """Return why there is no such cable between switches."""
    problem = cable_problem(ends, topology.switches, topology.cables_between(ends.one, ends.other))
    return f"{quoted(component)}: {problem}" if problem else None


def _not_simulated(component: str, kind: str, ends: CableEnds | None, topology: Topology) -> str | None:
    """Return what the simulation cannot show above the leaves; *ends* None: of a switch."""
    if kind == "swapped" and (ends is None or not ends.both):
        return f"{quoted(component)}: only a cable is swapped: write su0-leaf3--spine02, or gpu003/mlx5_2:port"
    if kind == "broken" and ends is not None and not ends.both:
        return f"{quoted(component)}: a cable breaks in both directions: write {ends.one}--{ends.other}"
    irregular = network_problem(topology)
    return None if irregular is None else f"{quoted(component)} cannot be simulated: {irregular}"


def regular_net(topology: Topology) -> NamedClos:
    """Return the network above the leaves; raise ValueError if it cannot be simulated."""
    from fabric.sim.net.named_clos import net_from_topology  # numpy: only where it is needed

    layers = sorted({host.platform.link_layer for host in topology.hosts.values()})
    if len(layers) > 1:
        raise ValueError(f"hosts have different link layers: {', '.join(layers)}")
    return net_from_topology(topology)


def network_problem(topology: Topology) -> str | None:
    """Return why the network above the leaves cannot be simulated, or None if it can."""
    try:
        regular_net(topology)
    except ValueError as exc:
        return f"the switches are no regular Clos network: {exc} (docs/simulate.md says what can be simulated)"
    return None


_LOOKED_AT_MOST = 1024  # the most cables of one lower end compared for one draw; no switch has more ports


@dataclass(frozen=True)
class Links:
    """The links that a run may alter, given its hosts; problems are noted at the path of the key ``links``."""

    context: Context
    _draws: dict[DrawnLinks, tuple[str, ...]] = field(default_factory=dict)  # kept for the next combination

    def named(self, text: str, path: KeyPath, problems: Problems) -> str | None:
        """Return the link's name in the model (lower switch first, no ``#0``); None if there is no such link."""
        name, problem = (text, self._rnic_problem(text)) if "/" in text else self._between(text)
        if not problem and self.context.hosts and name not in self._serving:
            problem = f"no traffic between the hosts of this run can take {quoted(name)}: nothing would show"
        if problem:
            problems.add(path, problem)
        return None if problem else name

    def drawn(self, wanted: DrawnLinks, path: KeyPath, problems: Problems) -> tuple[str, ...]:
        """
        Return as many links as are wanted, the same ones on every machine.

        Links that serve the hosts of the run are ordered by the SHA-256 of ``seed/name``. Then their lower ends take
        turns, and each gives the first of its links whose upper end was drawn least often.
        """
        if wanted in self._draws:
            return self._draws[wanted]
        ends = self._ends(wanted, path, problems)
        if ends is None:
            return ()
        fitting = [
            link
            for link in self._serving.values()
            if self._tier(link) == wanted.tier and (not ends or _lower(link) in ends or link.b in ends)
        ]
        if wanted.count > len(fitting):
            which = f"{wanted.tier} links" + (" of those" if ends else "")
            if not fitting:
                problems.add(path, f"the hosts of this run have no {which} that their traffic can take")
                return ()
            text = f"expected at most {len(fitting)}: the hosts of this run have no more {which}; got {wanted.count}"
            problems.add((*path, "count"), text)
            return ()
        names = tuple(link.name for link in islice(_in_turns(fitting, wanted.seed), wanted.count))
        self._draws[wanted] = names
        return names

    def _rnic_problem(self, text: str) -> str:
        """Return why ``gpu001/mlx5_0`` is not a link of this run; empty if it is."""
        link, hosts = Part.of(text), self.context.topology.hosts
        if problem := rnic_problem(link, {name: host.platform.rnic_by_device for name, host in hosts.items()}):
            return problem
        if link.host not in self.context.hosts:
            return f"{link.host} does not take part in this run: only links of its hosts are altered"
        return ""

    def _between(self, text: str) -> tuple[str, str]:
        """Return the name of the cable between two switches, and why there is none."""
        ends, sharp, number = text.partition("#")
        topology = self.context.topology
        cable = cable_ends(ends, topology.switches)
        if cable is None or (sharp and not (number.isascii() and number.isdigit() and len(number) <= 6)):
            hint = nearest(text, [*topology.switches, *topology.hosts])
            return text, f"expected a link such as su0-leaf3--spine02 or gpu001/mlx5_0, got {quoted(text)}{hint}"
        one, other, which = cable.one, cable.other, int(number or 0)
        count = topology.cables_between(one, other)
        beside = [*topology.above.get(one, ()), *(lower for lower, uppers in topology.above.items() if one in uppers)]
        hint = "" if count else nearest(other, beside)
        lower, upper = (one, other) if other in topology.above.get(one, ()) else (other, one)
        name = f"{lower}--{upper}#{which}" if which else f"{lower}--{upper}"
        return name, cable_problem(cable, topology.switches, count, which, hint=hint)

    def _ends(self, wanted: DrawnLinks, path: KeyPath, problems: Problems) -> frozenset[str] | None:
        """Return the switches and hosts of ``of``; empty without it, None if one of them does not exist."""
        found: set[str] = set()
        known = {**self.context.topology.switches, **self.context.topology.hosts}
        good = True
        for position, part in enumerate(wanted.of or ()):
            here = (*path, "of", position)
            names = unfolded(part, here, problems)
            absent = sorted({name for name in names if name not in known})
            if absent:
                problems.add(here, f"no host or switch {some(absent)}{nearest(absent[0], known)}")
            good = good and bool(names) and not absent
            found.update(names)
        return frozenset(found) if good else None

    def _tier(self, link: Link) -> str:
        """Return ``access`` for an RNIC's link; else ``spine`` or ``core``, by the link's upper end."""
        return "access" if "/" in link.a else self.context.topology.switches[link.b].tier

    @cached_property
    def _serving(self) -> Mapping[str, Link]:
        """Return by name every link that traffic of the run's hosts can take."""
        return {link.name: link for link in self.context.topology.links_between(self.context.hosts)}


def _lower(link: Link) -> str:
    """Return the host or switch at the link's lower end."""
    return Part.of(link.a).host


def _in_turns(links: Iterable[Link], seed: int) -> Iterator[Link]:
    """Yield all links: lower ends take turns, and upper ends are used as evenly as possible."""
    drawn = sorted(links, key=lambda each: sha256(f"{seed}/{each.name}".encode()).digest())
    by_lower = gathered((_lower(link), link) for link in drawn)
    taken: Counter[str] = Counter()
    while by_lower:
        for lower in list(by_lower):
            waiting = by_lower[lower]
            best = min(islice(waiting, _LOOKED_AT_MOST), key=lambda each: taken[each.b])
            waiting.remove(best)
            if not waiting:
                del by_lower[lower]
            taken[best.b] += 1
            yield best
