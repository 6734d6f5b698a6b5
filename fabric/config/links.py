"""Names of links in a scenario: checked against the topology, or drawn from it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice

from fabric.changes.cable_fault import DrawnLinks
from fabric.config.faults import cable_problem
from fabric.config.platforms import unfolded
from fabric.config.problems import KeyPath, Problems
from fabric.config.topology import TIERS
from fabric.model.fields.folded import some
from fabric.model.fields.wording import nearest, quoted
from fabric.model.topology import Topology
from fabric.sim.faults import cable_ends

_LOOKED_AT_MOST = 1024  # cables of one lower end that are compared for one draw; no switch has more ports


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable: its name as the model writes it, its two ends (a host or switch), the lower first, and its tier."""

    name: str
    lower: str
    upper: str
    tier: str  # "access" | "spine" | "core"


@dataclass(frozen=True)
class Links:
    """The links of *topology*, for a run on *hosts*; problems are noted at the path of the key ``links``."""

    topology: Topology
    hosts: tuple[str, ...]

    def named(self, text: str, path: KeyPath, problems: Problems) -> str | None:
        """The link as the model writes it: the lower switch first, no ``#0``; None when there is no such link."""
        name, said = (text, self._rnic_problem(text)) if "/" in text else self._between(text)
        if not said and self.hosts and name not in self._serving_names:
            said = f"no traffic between the hosts of this run can take {quoted(name)}: nothing would show"
        if said:
            problems.add(path, said)
        return None if said else name

    def drawn(self, wanted: DrawnLinks, path: KeyPath, problems: Problems) -> tuple[str, ...]:
        """
        As many links as are wanted, the same on every machine.

        Those that serve the hosts of the run are ordered by the SHA-256 of ``seed/name``. Then their lower ends take
        turns, and each gives the first of its links whose upper end was drawn least often.
        """
        if wanted in self._draws:
            return self._draws[wanted]
        ends = self._ends(wanted, path, problems)
        if ends is None:
            return ()
        fitting = [
            cable
            for cable in self._serving
            if cable.tier == wanted.tier and (not ends or cable.lower in ends or cable.upper in ends)
        ]
        if wanted.count > len(fitting):
            which = f"{wanted.tier} links" + (" of those" if ends else "")
            if not fitting:
                problems.add(path, f"the hosts of this run have no {which} that their traffic can take")
                return ()
            text = f"expected at most {len(fitting)}: the hosts of this run have no more {which}; got {wanted.count}"
            problems.add((*path, "count"), text)
            return ()
        names = tuple(cable.name for cable in islice(_in_turns(fitting, wanted.seed), wanted.count))
        self._draws[wanted] = names
        return names

    def _rnic_problem(self, text: str) -> str:
        """Why ``gpu001/mlx5_0`` is no link of this run; nothing when it is."""
        name, _, device = text.partition("/")
        host = self.topology.hosts.get(name)
        if host is None:
            return f"no host {quoted(name)}{nearest(name, self.topology.hosts)}"
        devices = host.platform.rnic_by_device
        if device not in devices:
            return f"{quoted(device)} is not an RNIC of {name}{nearest(device, devices)}"
        if name not in self.hosts:
            return f"{name} does not take part in this run: only links of its hosts are altered"
        return ""

    def _between(self, text: str) -> tuple[str, str]:
        """The cable between two switches, and why there is none."""
        ends, sharp, number = text.partition("#")
        switches = self.topology.switches
        cable = cable_ends(ends, switches)
        if cable is None or (sharp and not (number.isascii() and number.isdigit() and len(number) <= 6)):
            hint = nearest(text, [*switches, *self.topology.hosts])
            return text, f"expected a link such as su0-leaf3--spine02 or gpu001/mlx5_0, got {quoted(text)}{hint}"
        pair = (cable.one, cable.other) if (cable.one, cable.other) in self._joined else (cable.other, cable.one)
        count, which = self._joined.get(pair, 0), int(number or 0)
        beside = [b if a == cable.one else a for a, b in self._joined if cable.one in (a, b)]
        hint = "" if count else nearest(cable.other, beside)
        return _cable_name(*pair, which), cable_problem(cable, switches, count, which, hint=hint)

    def _ends(self, wanted: DrawnLinks, path: KeyPath, problems: Problems) -> frozenset[str] | None:
        """The switches and hosts of ``of``; empty without it, None when one of them is not there."""
        found: set[str] = set()
        known = {**self.topology.switches, **self.topology.hosts}
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

    @cached_property
    def _draws(self) -> dict[DrawnLinks, tuple[str, ...]]:
        """What was drawn before: every combination of a matrix asks again."""
        return {}

    @cached_property
    def _joined(self) -> Counter[tuple[str, str]]:
        """How many cables there are between a lower and an upper switch, whichever of them the file says ``to`` of."""
        rank = {name: TIERS.index(switch.tier) for name, switch in self.topology.switches.items()}
        found: Counter[tuple[str, str]] = Counter()
        for uplinks in self.topology.uplinks:
            for one in uplinks.lower:
                for other in uplinks.upper:
                    found[(one, other) if rank[one] < rank[other] else (other, one)] += uplinks.count
        return found

    @cached_property
    def _serving_names(self) -> frozenset[str]:
        return frozenset(cable.name for cable in self._serving)

    @cached_property
    def _serving(self) -> tuple[Cable, ...]:
        """Every link that traffic of the hosts of the run can take, lower tiers first."""
        taking_part = [self.topology.hosts[name] for name in self.hosts]
        access = [
            Cable(f"{host.name}/{rnic.device}", host.name, host.leaves[rnic.rail], "access")
            for host in taking_part
            for rnic in host.platform.rnics
            if rnic.rail < len(host.leaves)
        ]
        above: dict[str, list[str]] = {}
        for lower, upper in self._joined:
            above.setdefault(lower, []).append(upper)
        found, reached = access, {cable.upper: None for cable in access}
        waiting = deque(reached)
        while waiting:
            lower = waiting.popleft()
            for upper in above.get(lower, ()):
                tier = self.topology.switches[upper].tier
                names = [_cable_name(lower, upper, number) for number in range(self._joined[lower, upper])]
                found += [Cable(name, lower, upper, tier) for name in names]
                if upper not in reached:
                    reached[upper] = None
                    waiting.append(upper)
        return tuple(found)


def _cable_name(lower: str, upper: str, number: int) -> str:
    return f"{lower}--{upper}" + (f"#{number}" if number else "")


def _in_turns(cables: Iterable[Cable], seed: int) -> Iterator[Cable]:
    """All of them, one of each lower end after the other, upper ends as evenly as they come."""
    by_lower: dict[str, list[Cable]] = {}
    for cable in sorted(cables, key=lambda each: sha256(f"{seed}/{each.name}".encode()).digest()):
        by_lower.setdefault(cable.lower, []).append(cable)
    taken: Counter[str] = Counter()
    while by_lower:
        for lower in list(by_lower):
            waiting = by_lower[lower]
            best = min(islice(waiting, _LOOKED_AT_MOST), key=lambda each: taken[each.upper])
            waiting.remove(best)
            if not waiting:
                del by_lower[lower]
            taken[best.upper] += 1
            yield best
