"""
Which parts the rows of many rounds pass through, as the matrix that ``locate.inside`` searches.

Between switches the way of a row is not known. With static routes all that is sent to an RNIC comes down one cable of
its leaf, and all that one other leaf sends to it goes up one cable there; with adaptive routing each cable takes a
share of all. So three columns stand for the cables above a leaf: all of them, the way *down* to each RNIC, and the way
*up* from a leaf to each RNIC beyond it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import log, nan

import numpy as np

from fabric.judge.course.rows import CourseRows
from fabric.judge.locate.candidates import Component, components_of, host_side
from fabric.judge.locate.cells import NOTHING, SampleMatrix
from fabric.judge.locate.matrix import EXTRA
from fabric.judge.locate.structure import Floats, Ints
from fabric.judge.normal.series import DIP_SIGMAS
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.sampling import CounterCourse
from fabric.model.topology import Topology

Modules = Mapping[str, Mapping[str, CounterCourse]]
"""The temperatures of modules by host and device."""

UPLINKS = "uplinks"
"""The kind of the cables above a leaf, and what is behind its name: ``su0-leaf3:uplinks``."""

GPUS = "gpus"
"""The kind of the way from the GPUs of a host to its RNICs: collectives of several hosts take it."""

UP, DOWN = "up", "down"
"""The kinds of the way from a leaf up to one RNIC beyond it, and down to one RNIC."""

_KINDS = frozenset({"rnic", "link", "host", "numa", "pcie_switch", "leaf"})
_AT_RNIC = frozenset({"rnic", "link"})
_WIDE = frozenset({"host", "numa", "pcie_switch", "leaf", "rack", UPLINKS})
_CLEAR = 0.4  # of the loss from which a row is slow: who lost less was not slowed by a part that loses more than that
_EACH = frozenset({"loopback", "rnic_to_rnic", "pairwise", "all_to_all"})  # a slow part of theirs shows in each
_RARER = {UP: 2.3, DOWN: 2.3, GPUS: 0.7}  # nats, as of a pair: beside an RNIC, a way that few rows take


class Passed:
    """The columns of *rows*, and their matrix."""

    def __init__(self, rows: CourseRows, topology: Topology, modules: Modules) -> None:
        self._rows, self._topology, self._modules = rows, topology, modules
        self._numbers: dict[tuple[str, str], int] = {}
        self.columns: list[Component] = []
        self.alike: dict[int, list[tuple[int, float]]] = {}  # others of the same rows, and how much rarer they are
        hosts = {host for row in rows.rows for host in row.probe.hosts}
        self._several = len({topology.hosts[host].rack for host in hosts}) > 1  # racks: what is of all is of none
        self._end = cache(self._end_of)
        self._group = cache(self._group_of)
        sample, part = array("q"), array("q")
        for number, row in enumerate(rows.rows):
            own = self._passed(row.probe)
            sample.extend((number,) * len(own))
            part.extend(own)
        self._sample, self._part = np.array(sample, dtype=np.int64), np.array(part, dtype=np.int64)

    def matrix(self) -> SampleMatrix:
        """Of the parts alone that slow rows pass through."""
        rows, of_class = self._rows, np.array([row.of_class for row in self._rows.rows], dtype=np.int64)
        noise = np.array(rows.spreads)
        least = -np.log1p(-np.array(rows.floors))
        floor = -np.log1p(-np.minimum(0.9, np.maximum(rows.floors, DIP_SIGMAS * noise)))
        share = np.array([row.share for row in rows.rows])
        y = np.clip(np.log(np.maximum(share, 1e-9)), NOTHING, 3 * noise[of_class])
        slow = np.bincount(self._part, (y < -floor[of_class])[self._sample], minlength=len(self.columns)) > 0
        self._join(np.flatnonzero(slow))
        kept = (slow & (self._first == np.arange(len(slow))))[self._part]
        return SampleMatrix(
            y=y,
            of_class=of_class,
            at_s=np.array([row.began_s for row in rows.rows]),
            sample=self._sample[kept],
            part=self._part[kept],
            noise=noise,
            floor=floor,
            least=least,
            apart=least,
            level=np.array([float(kind in _EACH) for kind in rows.kinds]),
            cost=np.array(self._costs()),
            large=np.array([one.kind in _WIDE for one in self.columns], dtype=np.bool_),
            timed=True,
            clear=_CLEAR * floor,
            warmth=self._warmth(),
        )

    def _warmth(self) -> dict[int, Callable[[Floats], Floats]]:
        """The temperature of each RNIC's module."""

        def celsius(course: CounterCourse, at_s: Floats) -> Floats:
            found = [course.value_at(one) for one in at_s.tolist()]
            return np.array([nan if one is None else float(one) for one in found])

        places = ((number, Part.of(one.name).place) for number, one in enumerate(self.columns) if one.kind in _AT_RNIC)
        known = ((number, self._modules.get(host, {}).get(device)) for number, (host, device) in places)
        return {number: partial(celsius, course) for number, course in known if course is not None}

    def _join(self, parts: Ints) -> None:
        """What the very same rows pass through is one column: nothing tells an RNIC from its cable, but loopbacks."""
        order = np.lexsort((self._sample, self._part))
        sample, start = self._sample[order], np.searchsorted(self._part[order], np.arange(len(self.columns) + 1))
        self._first = np.arange(len(self.columns))
        known: dict[bytes, int] = {}
        costs = self._costs()
        for part in sorted(parts.tolist(), key=lambda one: (costs[one], one)):
            first = known.setdefault(sample[start[part] : start[part + 1]].tobytes(), part)
            self._first[part] = first
            if first != part:
                self.alike.setdefault(first, []).append((part, costs[part] - costs[first]))

    def _costs(self) -> list[float]:
        """Nats that it takes to say each part: of as many as there are of the most frequent kind of hosts' parts."""
        count = log(max(2, Counter(one.kind for one in self.columns)["rnic"])) + 1.0
        return [count + (EXTRA | _RARER).get(one.kind, 0.0) for one in self.columns]

    def rows_of(self, part: int) -> Ints:
        """The rows that pass through a part, in order of time."""
        found: Ints = np.sort(self._sample[self._part == part])
        return found

    def _number(self, one: Component) -> int:
        key = (one.name, one.kind)
        found = self._numbers.setdefault(key, len(self.columns))
        if found == len(self.columns):
            self.columns.append(one)
        return found

    def _passed(self, probe: Probe) -> Sequence[int]:
        if "peer_rnic" in probe.params and len(probe.hosts) > 1:
            return self._pair(probe)
        return self._group(probe.hosts) if len(probe.hosts) > 1 else self._numbered(probe)

    def _pair(self, probe: Probe) -> Sequence[int]:
        """Of a sender and a receiver; what both are in counts once."""
        up, one = self._end(probe.hosts[0], str(probe.params["rnic"]))
        down, other = self._end(probe.hosts[-1], str(probe.params["peer_rnic"]))
        leaves = [leaf for leaf in dict.fromkeys((up, down)) if leaf]
        found = [*{*one, *other}, *(self._number(_leaf(leaf)) for leaf in leaves)]
        if len(leaves) > 1:
            target = f"{probe.hosts[-1]}/{probe.params['peer_rnic']}"
            found += [self._number(_uplinks(leaf)) for leaf in leaves]
            found.append(self._number(Component(f"{down}:{UPLINKS}<{target}", DOWN, f"down to {target}")))
            found.append(self._number(Component(f"{up}:{UPLINKS}>{target}", UP, f"up from {up} to {target}")))
        return found

    def _end_of(self, host: str, device: str) -> tuple[str, tuple[int, ...]]:
        """The leaf of an RNIC (empty: not known), and the numbers of what is on its side."""
        known = self._topology.hosts[host]
        rail = known.platform.rnic_by_device[device].rail
        side = (one for one in host_side(host, device, self._topology) if _counts(one))
        leaf = known.leaves[rail] if rail < len(known.leaves) else ""
        return leaf, tuple(self._number(one) for one in (*side, *self._rack(host)))

    def _group_of(self, hosts: tuple[str, ...]) -> tuple[int, ...]:
        """Of a collective, that crosses leaves where its hosts are under several."""
        of_hosts = [self._topology.hosts[name].leaves for name in hosts]
        found: dict[int, None] = {}
        for host in hosts:
            found[self._number(_nvlink(host))] = None
            found[self._number(Component(host, GPUS, "the way from its GPUs to its RNICs"))] = None
            for rnic in self._topology.hosts[host].platform.rnics:
                found.update(dict.fromkeys(self._end(host, rnic.device)[1]))
        crosses = len(set(of_hosts)) > 1
        for leaf in dict.fromkeys(leaf for leaves in of_hosts for leaf in leaves):
            found[self._number(_leaf(leaf))] = None
            if crosses:
                found[self._number(_uplinks(leaf))] = None
        return tuple(found)

    def _numbered(self, probe: Probe) -> list[int]:
        """Of a probe within a host."""
        host = probe.hosts[0]
        if probe.kind == "all_to_all":
            own = [_nvlink(host), Component(host, "host", "the whole host")]
        else:
            own = [one for one in components_of(probe, self._topology) if _counts(one) or one.kind == "path"]
        return list(dict.fromkeys(self._number(one) for one in (*own, *self._rack(host))))

    def _rack(self, host: str) -> Iterator[Component]:
        rack = self._topology.hosts[host].rack
        if rack is not None and self._several:
            yield Component(f"rack {rack}", "rack", f"the rack {rack}")


def _counts(one: Component) -> bool:
    return one.kind in _KINDS and not one.name.endswith(":uplink")


def _nvlink(host: str) -> Component:
    return Component(f"{host}/nvlink", "nvlink", "NVLink of the host, or a GPU")


def _leaf(name: str) -> Component:
    return Component(name, "leaf", f"the leaf switch {name}")


def _uplinks(leaf: str) -> Component:
    return Component(f"{leaf}:{UPLINKS}", UPLINKS, f"the cables above {leaf}")
