"""
A part that many RNICs share and that went bad in the middle of a run: a leaf, a PCIe switch, a memory node.

Over a whole run most probes through it are good, and from some hour on nearly none is: so it is looked at in the time
in which it may be bad, and not over all of it. That it is the part, and not each RNIC behind it, is said when nearly
all that crossed it then is bad, when the RNICs behind it went bad together, and when their hosts are well elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from fabric.model.part import Part
from fabric.model.topology import Topology

ENOUGH = 0.9
"""Nearly all of the probes through a part that is bad (a choice: one lucky one in ten clears nobody)."""

LEAST_HOSTS = 3
"""Two hosts under a leaf that are bad together may be chance (a choice)."""

LEAST_RNICS = 2
"""What one RNIC alone is behind cannot be told from that RNIC."""


@dataclass(frozen=True, slots=True)
class SharedPart:
    """A *component*, its *kind* as in ``model.verdict.Suspect``, the RNICs behind it, and who has the same ones."""

    component: str
    kind: str
    rnics: frozenset[str]
    rivals: tuple[str, ...] = ()


def groups_of(rnics: Iterable[str], topology: Topology) -> tuple[list[SharedPart], list[SharedPart]]:
    """Of these RNICs (``gpu001/mlx5_0``): the leaves above them, and the parts of their hosts."""
    leaves: dict[str, set[str]] = {}
    inside: dict[tuple[str, str], set[str]] = {}
    for name in rnics:
        host, device = Part.of(name).place
        found = topology.hosts[host]
        rnic = found.platform.rnic_by_device[device]
        if rnic.rail < len(found.leaves):
            leaves.setdefault(found.leaves[rnic.rail], set()).add(name)
        inside.setdefault((f"{host}/numa{rnic.numa}", "numa"), set()).add(name)
        if rnic.pcie_switch is not None:
            inside.setdefault((f"{host}/{rnic.pcie_switch}", "pcie_switch"), set()).add(name)
    above = [
        SharedPart(leaf, "leaf", frozenset(names))
        for leaf, names in sorted(leaves.items())
        if len({Part.of(name).host for name in names}) >= LEAST_HOSTS
    ]
    alike: dict[frozenset[str], list[tuple[str, str]]] = {}
    for part, names in sorted(inside.items(), key=lambda item: (item[0][1] != "pcie_switch", item[0])):
        if len(names) >= LEAST_RNICS:
            alike.setdefault(frozenset(names), []).append(part)
    return above, [
        SharedPart(component, kind, names, tuple(other for other, _ in others))
        for names, ((component, kind), *others) in alike.items()
    ]


LEAST_BAD = 4
"""Fewer bad probes are no proof of a part that many share (a choice)."""

LEAST_PARTNERS = 2
"""With a single other host, it may be that one (a choice, as in ``pairs/failed.py``)."""

MOST_OF = 0.5
"""More of the RNICs behind it must be bad; and of what its hosts do elsewhere no more may be (a choice)."""

AS_FAST = 0.9
"""A probe slower than this share of what the part lets through has another cause, too (a choice)."""

INSIDE = frozenset({"all_to_all", "loopback"})
"""Kinds that never leave their host."""

_MOST_FOUND = 64  # of each tier; more is no fault of single parts (a bound on the cost)
_GOOD_WEIGHT = ENOUGH / (1.0 - ENOUGH)  # so that in any time found at least ENOUGH are bad


@dataclass(frozen=True, slots=True)
class LowThrough:
    """
    One probe: when it ran, its hosts, the *rnics* whose way to the network it names (``gpu001/mlx5_0``), how it was.

    *level* is what it carried, in any unit that is one for all of its *kind*; None when it carried nothing.
    """

    probe_id: str
    kind: str
    began_s: float
    ended_s: float
    hosts: tuple[str, ...]
    rnics: tuple[str, ...]
    bad: bool
    level: float | None


@dataclass(frozen=True, slots=True)
class SharedCause:
    """
    A *group* that was bad for a time, which began between *after_s* and *by_s* and was over by *over_s* (None: never).

    *rnics* are those behind it that showed it, *bad* the probes through it that were bad then (of *telling*, the worst
    first), *explains* all whose trouble is this one. *share*: what it let through, of what it did before; 0: nothing.
    *rivals* would do as well: of a leaf its uplinks, where all that crossed it went on to another leaf.
    """

    group: SharedPart
    after_s: float
    by_s: float
    over_s: float | None
    rnics: tuple[str, ...]
    bad: tuple[str, ...]
    telling: int
    explains: frozenset[str]
    share: float
    rivals: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Whose RNICs showed it."""
        return tuple(dict.fromkeys(Part.of(name).host for name in self.rnics))


def shared_parts(seen: Iterable[LowThrough], topology: Topology) -> list[SharedCause]:
    """Leaves first, then parts of hosts, who explains most first; each takes what it explains out of account."""
    left = sorted(seen, key=lambda one: (one.began_s, one.probe_id))
    bad = {name for one in left if one.bad for name in one.rnics}
    found: list[SharedCause] = []
    if not bad:
        return found
    for tier in groups_of({name for one in left for name in one.rnics}, topology):
        groups = [group for group in tier if len(group.rnics & bad) > MOST_OF * len(group.rnics)]
        for _ in range(_MOST_FOUND):
            best = _best(groups, left) if groups else None
            if best is None:
                break
            found.append(best)
            left = [one for one in left if one.probe_id not in best.explains]
            groups = [group for group in groups if group.component not in (best.group.component, *best.rivals)]
    return found


def _best(groups: Sequence[SharedPart], seen: Sequence[LowThrough]) -> SharedCause | None:
    """The group that explains most bad probes; those with the very same ones are its rivals."""
    by_rnic: dict[str, list[LowThrough]] = {}
    by_host: dict[str, list[LowThrough]] = {}
    for one in seen:
        for name in one.rnics:
            by_rnic.setdefault(name, []).append(one)
        for host in one.hosts:
            by_host.setdefault(host, []).append(one)
    found = [one for one in (_looked_at(group, by_rnic, by_host) for group in groups) if one is not None]
    if not found:
        return None
    best = max(found, key=lambda one: (len(one.explains), len(one.bad), len(one.group.rnics), one.group.component))
    alike = [one.group.component for one in found if one is not best and one.explains == best.explains]
    return replace(best, rivals=(*best.rivals, *alike))


def _looked_at(
    group: SharedPart, by_rnic: Mapping[str, Sequence[LowThrough]], by_host: Mapping[str, Sequence[LowThrough]]
) -> SharedCause | None:
    """What became of a group; None when it was well, when it was bad all the time, or when others explain it better."""
    own = _once(one for name in group.rnics for one in by_rnic.get(name, ()))
    first, last = _bad_time([one.bad for one in own])
    then, before = own[first:last], own[:first]
    bad = [one for one in then if one.bad]
    rest = [*before, *own[last:]]
    if len(bad) < LEAST_BAD or not any(not one.bad for one in rest) or not _is_of_all(group, bad, before):
        return None
    began_s = then[0].began_s
    over_s = min((one.began_s for one in own[last:] if not one.bad), default=None)
    ended_s = inf if over_s is None else over_s
    hosts = sorted({Part.of(name).host for name in group.rnics})
    near = _once(one for host in hosts for one in by_host[host] if one.ended_s >= began_s and one.began_s <= ended_s)
    if not _are_well_elsewhere(group, near):
        return None
    good_before = [one for one in before if not one.bad]
    after_s = max((one.ended_s for one in good_before), default=0.0)
    beside = _once(one for host in hosts for one in by_host[host] if after_s <= one.ended_s and one.began_s <= ended_s)
    collectives = [one for one in beside if _is_collective(one)]
    only_beyond = group.kind == "leaf" and not any(group.rnics.issuperset(one.rnics) for one in bad)
    under = [one.bad for one in collectives if only_beyond and set(hosts).issuperset(one.hosts)]
    if under and not any(under):
        return None  # what stays under the leaf is well: it is what lies beyond
    explained = _explained([*bad, *(one for one in collectives if one.bad)])
    worst = sorted(bad, key=lambda one: (one.level or 0.0, one.began_s, one.probe_id))
    return SharedCause(
        group=group,
        after_s=after_s,
        by_s=min(one.ended_s for one in explained),
        over_s=over_s,
        rnics=tuple(sorted(group.rnics & {name for one in bad for name in one.rnics})),
        bad=tuple(one.probe_id for one in worst),
        telling=len(then),
        explains=frozenset(one.probe_id for one in explained),
        share=_share(bad, [one for one in rest if not one.bad]),
        rivals=(f"{group.component}:uplinks",) if only_beyond and not under else group.rivals,
    )


def _once(seen: Iterable[LowThrough]) -> list[LowThrough]:
    """Each probe once, in order of time."""
    return sorted({one.probe_id: one for one in seen}.values(), key=lambda one: (one.began_s, one.probe_id))


def _bad_time(bad: Sequence[bool]) -> tuple[int, int]:
    """From which to before which place nearly all are bad: the part with the greatest sum, good ones weighing more."""
    best, total, first = 0.0, 0.0, 0
    found = (0, 0)
    for place, is_bad in enumerate(bad):
        if total <= 0.0:
            total, first = 0.0, place
        total += 1.0 if is_bad else -_GOOD_WEIGHT
        if total > best:
            best, found = total, (first, place + 1)
    return found


def _is_of_all(group: SharedPart, bad: Sequence[LowThrough], before: Sequence[LowThrough]) -> bool:
    """Whether the RNICs behind it showed it, with several partners, and none (of a leaf: few) was bad before that."""
    showed = Counter(name for one in bad for name in one.rnics if name in group.rnics)
    last = {name: one.bad for one in before for name in one.rnics if name in group.rnics}
    bad_before = sum(last.values())
    if group.kind == "leaf":
        return len(showed) > MOST_OF * len(group.rnics) and bad_before <= (1.0 - ENOUGH) * len(group.rnics)
    partners: dict[str, set[str]] = {}
    for one in bad:
        for name in group.rnics.intersection(one.rnics):
            partners.setdefault(name, set()).update(one.hosts)
    return (
        len(showed) == len(group.rnics)
        and not bad_before
        and all(len(found) > LEAST_PARTNERS for found in partners.values())  # itself, and the partners
    )


def _are_well_elsewhere(group: SharedPart, near: Iterable[LowThrough]) -> bool:
    """
    Whether its hosts did well then in what does not go through it: they themselves are not what is bad.

    Where nothing else was measured of them, nothing says so. Of a part of a host only its other RNICs do: NVLink is
    well where PCIe is not.
    """
    inside = INSIDE if group.kind == "leaf" else frozenset()
    apart = [one for one in near if (one.rnics or one.kind in inside) and group.rnics.isdisjoint(one.rnics)]
    return bool(apart) and sum(one.bad for one in apart) <= MOST_OF * len(apart)


def _is_collective(one: LowThrough) -> bool:
    """Whether it goes over all RNICs of its hosts."""
    return not one.rnics and one.kind not in INSIDE


def _explained(bad: Sequence[LowThrough]) -> list[LowThrough]:
    """Those that are as fast as the part lets through; of a kind that mostly carries nothing, all."""
    levels: dict[str, list[float]] = {}
    for one in bad:
        levels.setdefault(one.kind, []).append(one.level or 0.0)
    least = {kind: AS_FAST * median(found) for kind, found in levels.items()}
    return [one for one in bad if (one.level or 0.0) >= least[one.kind]]


def _share(bad: Sequence[LowThrough], good: Sequence[LowThrough]) -> float:
    """The level of bad ones over that of good ones, of the kind that there are most of."""
    kind = Counter(one.kind for one in bad).most_common(1)[0][0]
    normal = [one.level for one in good if one.kind == kind and one.level is not None]
    low = median(one.level or 0.0 for one in bad if one.kind == kind)
    return low / median(normal) if normal else 0.0
