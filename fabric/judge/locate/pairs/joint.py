"""Several planes of pair samples joined: one numbering of hosts and parts, so that evidence adds up over rails.

A host as a whole is one part, and so is a spine that several planes share; every other part belongs to one plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from math import inf

import numpy as np

from fabric.judge.locate.candidates import CORES, SPINES
from fabric.judge.locate.cells import Cells, Entries
from fabric.judge.locate.concurrency import as_shares
from fabric.judge.locate.levels import FIFTH, Groups, are_classes, group_cost, with_one_host_moved
from fabric.judge.locate.pairs.components import (
    BUNDLES,
    EXTRA,
    FAMILY,
    NO_PAIRS,
    ONE_WAY,
    WHOLE_HOST,
    Components,
    components_of,
)
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN, Bools, Description, Floats, Ints

_TWICE = 2  # slow samples between two hosts from which what is between them alone may be faulty

LOST_SHARE = 1e-3
"""What a sample of 0 Gb/s counts as, as a share of the highest sample."""


@dataclass(frozen=True)
class Joint:
    """
    Planes of one kind and line rate, with the samples of all one after the other.

    By sample: *a* and *b* are its hosts, *plane* is its plane, *y* the log of its Gb/s. *places* says of each part
    which component of which planes it is.
    """

    planes: tuple[PairSamples, ...]
    components: tuple[Components, ...]
    hosts: tuple[str, ...]
    a: Ints
    b: Ints
    plane: Ints
    y: Floats
    beside: Floats | None
    cells: Cells
    family: Ints
    places: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, planes: Sequence[PairSamples], pairs: Sequence[Ints] = ()) -> Joint:
        """Join *planes*, each with a sample above 0; between two hosts of *pairs* (by plane) there is a part, too."""
        components = tuple(components_of(*both) for both in zip(planes, pairs or repeat(NO_PAIRS), strict=False))
        at = {host: n for n, host in enumerate(dict.fromkeys(host for one in planes for host in one.hosts))}
        ends = [np.array([at[host] for host in one.hosts], dtype=np.int64) for one in planes]
        made = _Numbers(planes, pairs=sum(len(np.unique(one.pair)) for one in planes) if pairs else 0)
        paths = [made.block(place, *both) for place, both in enumerate(zip(planes, components, strict=True))]
        width = max(block.shape[1] for block in paths)
        padded = [np.pad(block, [(0, 0), (0, width - block.shape[1])], constant_values=UNKNOWN) for block in paths]
        y = [np.log(np.maximum(one.gbps, LOST_SHARE * float(one.gbps.max()))) for one in planes]
        return cls(
            tuple(planes),
            components,
            tuple(at),
            np.concatenate([end[one.a] for end, one in zip(ends, planes, strict=True)]),
            np.concatenate([end[one.b] for end, one in zip(ends, planes, strict=True)]),
            np.repeat(np.arange(len(planes)), [len(one.a) for one in planes]),
            np.concatenate(y),
            _beside(planes),
            *made.cells(np.concatenate(padded)),
            tuple(tuple(one) for one in made.places),
        )

    def with_paths(self, found: Description) -> Joint:
        """
        Return the same with a part between every two hosts that were slow with each other twice or more.

        If these are more than a fifth of all pairs, they are a class, and no part is added.
        """
        every, pairs = sum(len(np.unique(one.pair)) for one in self.planes), []
        for place, one in enumerate(self.planes):
            number, count = np.unique(one.pair[found.slow[self.samples_of(place)]], return_counts=True)
            pairs.append(number[count >= _TWICE])
        return Joint.of(self.planes, pairs) if 0 < sum(map(len, pairs)) <= FIFTH * every else self

    @cached_property
    def lost(self) -> Bools:
        """Which samples are 0 Gb/s."""
        return np.concatenate([one.gbps == 0 for one in self.planes])

    @cached_property
    def stray(self) -> Bools:
        """Which samples are 0 Gb/s for whatever reason."""
        return np.concatenate([one.stray for one in self.planes])

    @cached_property
    def across(self) -> Bools | None:
        """Which samples leave their leaf; None where not all leaves are known."""
        if not all(one.placed or (one.leaves and (one.leaf != UNKNOWN).all()) for one in self.planes):
            return None
        return np.concatenate([one.crosses for one in self.planes])

    @cached_property
    def drawn(self) -> Bools:
        """Which samples took one of several ways between leaves, not known which."""
        return np.concatenate([one.drawn for one in self.planes])

    def beside_of(self, own: Floats) -> Floats | float:
        """Return what samples in the way of each reached, on the scale of *y* where planes have their *own* levels."""
        return inf if self.beside is None else self.beside - own[self.plane]

    def possible_groups(self, faulty: Sequence[int], y: Floats, known: Ints | None) -> list[Groups]:
        """
        Return groups that hosts of *faulty* parts may just stand in: one of their own, or another known one.

        *known* is the group of each host in the comparison so far. Samples through *faulty* parts that belong to no
        host say nothing of groups.
        """
        hosts, tells = np.zeros(len(self.hosts), dtype=np.bool_), np.ones(len(y), dtype=np.bool_)
        for part in faulty:
            of_hosts = [(place, int(self.components[place].hosts[component])) for place, component in self.places[part]]
            for place, host in of_hosts:
                if host != UNKNOWN:
                    hosts[self.hosts.index(self.planes[place].hosts[host])] = True
                else:
                    tells[self.cells.of(part)] = False
        alone = hosts.astype(np.int64)
        several = 1 < hosts.sum() < len(hosts) and are_classes(y[tells], self.a[tells], self.b[tells], alone)
        found = [(alone, group_cost(alone))] if several else []
        if known is not None:
            found += with_one_host_moved(known, np.flatnonzero(hosts), y[tells], self.a[tells], self.b[tells])
        return found

    def things(self, part: int) -> int:
        """Return the number of things in the family of a part; both directions of a thing are one."""
        things = self.cells.entries.things
        return int(things[part]) if things is not None else 1

    def samples_of(self, place: int) -> slice:
        """Return where the samples of a plane are among all."""
        first, last = np.searchsorted(self.plane, [place, place + 1]).tolist()
        return slice(first, last)

    def components_of(self, part: int, place: int) -> list[int]:
        """Return the components that a part is in one plane."""
        return [component for where, component in self.places[part] if where == place]


def _beside(planes: Sequence[PairSamples]) -> Floats | None:
    """Return the natural logarithm of what samples in the way of each reached; None where that is not known."""
    known = [one.slowest_beside_gbps for one in planes if one.slowest_beside_gbps is not None]
    return as_shares(np.concatenate(known), 1.0) if len(known) == len(planes) else None


class _Numbers:
    """Parts in the making, numbered plane by plane."""

    def __init__(self, planes: Sequence[PairSamples], *, pairs: int) -> None:
        self._pairs = pairs
        self.places: list[list[tuple[int, int]]] = []
        self._number: dict[tuple[str, str], int] = {}
        self._rows: list[tuple[int, float, int, bool, float]] = []
        self._several, self._apart = len(planes) > 1, len({one.leaves for one in planes}) > 1

    def _of(
        self, key: tuple[str, str], family: int, extra: float, whole: int = UNKNOWN, share: float | None = None
    ) -> int:
        if key not in self._number:
            number = self._number[key] = len(self._rows)
            self._rows.append((family, extra, number if whole == UNKNOWN else whole, key[0] in BUNDLES, share or 0.0))
            self.places.append([])
        return self._number[key]

    def block(self, place: int, samples: PairSamples, mine: Components) -> Ints:
        """Add the parts of one plane, and return those on the way of each of its samples."""
        number = np.full(len(mine.names) + 1, UNKNOWN, dtype=np.int64)  # the last: no part
        for component in np.argsort(mine.part != np.arange(len(mine.part)), kind="stable").tolist():
            kind, whole = mine.kinds[component], int(mine.part[component])
            thing, apart = mine.kinds[whole], whole != component
            extra, of = (EXTRA[thing] + ONE_WAY, int(number[whole])) if apart else (EXTRA[thing], UNKNOWN)
            # In all planes, what is above the same leaves is the same part.
            name = f"{mine.names[component]}{samples.where if kind == 'path' else ''}"
            if name in (SPINES, CORES):
                name += f" above {sorted(set(samples.pods.values())) or samples.leaves}"
            above = samples.leaves[mine.leaf[component]] if thing == "uplinks" else kind
            share = samples.shares.get(above)
            number[component] = self._of((kind, name), FAMILY[thing], extra, of, share)
            self.places[number[component]].append((place, component))
        if not self._several:
            return number[mine.paths]
        hosts = np.array([self._of(("whole host", name), WHOLE_HOST, 0.0) for name in samples.hosts], dtype=np.int64)
        for host, component in zip(hosts.tolist(), mine.host_sides.tolist(), strict=True):
            if (place, component) not in self.places[host]:
                self.places[host].append((place, component))
        found = np.column_stack([number[mine.paths], hosts[samples.a], hosts[samples.b]])
        if SPINES not in mine.names or not self._apart:
            return found
        spines = mine.names.index(SPINES)
        every = self._of((SPINES, "of all planes"), FAMILY[SPINES], EXTRA[SPINES], share=samples.shares.get(SPINES))
        self.places[every].append((place, spines))
        return np.column_stack([found, np.where((mine.paths == spines).any(axis=1), every, UNKNOWN)])

    def cells(self, paths: Ints) -> tuple[Cells, Ints]:
        """Return the cells for the locator, with the family of each part."""
        family, extra, whole, bundle, share = (np.array(column) for column in zip(*self._rows, strict=True))
        many = {FAMILY["path"]: self._pairs}
        entries = Entries.of_paths(paths, family, extra, whole, bundle, share, many)
        return Cells(entries, np.zeros(len(paths), dtype=np.int64)), family
