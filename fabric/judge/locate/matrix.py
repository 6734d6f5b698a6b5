"""What was measured inside hosts and in collectives, as the matrix that ``search.py`` searches.

A class is the probes that should reach the same number. Its normal is the upper mode of its numbers, so half of a rack
may be slow. Where that is below the limit or the record, the whole class is slow: then it is judged against these, and
"all of these hosts" is one more part. A probe that measured nothing at all is a sample of a hundredth of the normal.
Where a tool itself said what is bad (port down, no such device), the sample accuses only that.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import exp, inf, isnan, nan
from statistics import NormalDist

import numpy as np

from fabric.judge.locate.candidates import MOMENT, Component, are_about, components_of, named_components_of
from fabric.judge.locate.cells import NOTHING, Cells, Entries, SampleMatrix, cost_of
from fabric.judge.locate.concurrency import as_shares, slowest_beside
from fabric.judge.locate.fit import DEAD
from fabric.judge.locate.gpus import GPUS
from fabric.judge.locate.levels import level_and_noise
from fabric.judge.locate.search import CHANCE
from fabric.judge.locate.structure import UNKNOWN, Bools, Floats, Ints, Normal
from fabric.judge.normal.interval import LEAST_PEERS, LEAST_SPREAD
from fabric.judge.normal.keys import ProbeLayouts, floor_of
from fabric.judge.normal.series import number_of
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe, ProbeResult, Results
from fabric.model.topology import NVLINK, Topology
from fabric.model.verdict import ProbeVerdict, Verdicts
from fabric.probes import pairwise
from fabric.probes.kinds import PEER_KINDS

EXTRA = {
    "nvlink": 0.7,
    "gpus": 0.7,
    "gpu_pcie": 0.7,
    "pcie_switch": 0.7,
    "cpu_interconnect": 0.7,
    "numa": 1.4,
    "path": 1.6,
    "pair": 2.3,
    "group": 2.0,
}
"""Nats by which a kind is rarer than a bad host, RNIC, cable, GPU or leaf: a bad path is five times rarer."""

LEAST_ALIKE = 3
"""The fewest hosts that count as slow as a whole, or as having the same trouble: fewer may be chance."""

OF_FLOOR = 2 / 3
"""The least loss of a part, as a share of the loss that matters: a fault of just that is found, not every other one."""

SIGMAS = 3.0
"""A sample this many times its noise below its level is slow; a mean this many errors from a limit is clear of it."""

RoundOf = Mapping[str, Hashable]
"""By phase: what it is a round of. Its numbers are compared with those of the other rounds."""

_ONE_FLOW = frozenset({"loopback", "rnic_to_rnic"})  # kinds that measure one flow: a cap shows in all alike
_LARGE = frozenset({"host", "leaf", "group", "numa", "pcie_switch", "rack", MOMENT})
_LEAST_BELOW = 0.005  # natural log: a class that is so little below its limit meets it
_FEW_NOISE = 0.01  # noise of a class with too few numbers to estimate it


@dataclass(frozen=True, slots=True)
class PlacedSample:
    """One sample with its class; *value_gbps* is None where nothing was measured."""

    probe: Probe
    verdict: ProbeVerdict
    result: ProbeResult
    of_class: int
    value_gbps: float | None


class ProbeSamples:
    """Probes as samples, by class: all that tell something give the levels, *rows* are those that are kept."""

    of_class: Ints
    _y: Floats
    _anchored: Bools

    def __init__(
        self,
        probes: Sequence[Probe],
        verdicts: Verdicts,
        results: Results,
        topology: Topology,
        outcome: Outcome,
        written: RoundOf,
        *,
        pairs: bool,
    ) -> None:
        """Take all probes that tell something, then keep those that are about hosts with anything bad."""
        self._verdicts, self._results, self._pairs = verdicts, results, pairs
        self._topology, self._outcome, self._written = topology, outcome, written
        self._limit: dict[int, float] = {}
        self._usual: dict[int, float] = {}  # what records say that a class reaches
        taken, values, bad = self._taken(probes)
        self._fit(taken, np.nan_to_num(values))
        low = self._y < -self.floor[self.of_class]
        bad_hosts = {host for i in np.flatnonzero(low).tolist() for host in taken[i].hosts}
        low |= bad
        self.normal_gbps = {  # what is normal for each that is bad or slow, Gb/s
            taken[i].probe_id: float(self.level[self.of_class[i]]) for i in np.flatnonzero(low & ~np.isnan(values))
        }
        self.count = len(taken)  # of all samples
        about, anchored = are_about(bad_hosts, self._topology), self._anchored[self.of_class].tolist()
        kept = [i for i, probe in enumerate(taken) if bad_hosts and (anchored[i] or about(probe))]
        self.of_class, self._y = self.of_class[kept], self._y[kept]
        self.rows = list[PlacedSample]()
        for i, of_class in zip(kept, self.of_class.tolist(), strict=True):
            name, value = taken[i].probe_id, None if isnan(values[i]) else float(values[i])
            self.rows.append(PlacedSample(taken[i], verdicts[name], results[name], of_class, value))

    def _taken(self, probes: Sequence[Probe]) -> tuple[list[Probe], Floats, Bools]:
        """Return the probes that tell something, their numbers (NaN: nothing), and which are bad; set the classes."""
        verdicts, layouts, numbers = self._verdicts, ProbeLayouts(self._topology, self._written), dict[int, int]()
        failed = any(
            one.outcome is self._outcome and (one.value_gbps is None or self._outcome is not Outcome.FAIL)
            for one in verdicts.values()
        )
        renumbered = {
            (probe.phase, probe.hosts[0])
            for probe in probes
            if (named := verdicts[probe.probe_id].named) is not None and named.component.endswith(f"/{GPUS}")
        }
        taken, values, of_class, bad = list[Probe](), array("d"), array("q"), list[bool]()
        for probe in probes:
            verdict, result = verdicts[probe.probe_id], self._results.get(probe.probe_id)
            # CUDA numbers the remaining GPUs anew: another GPU was measured than was meant.
            if renumbered and (probe.phase, probe.hosts[0]) in renumbered and _is_of_gpu(probe, verdict):
                continue
            says = AGAIN not in probe.params or verdict.named is not None  # a host may die in any probe
            value = self._value(probe, verdict, result, failed=failed) if result and says and verdict.ran else None
            if value is None:
                continue
            number = numbers.setdefault(layouts.of(probe).alike, len(numbers))
            if self._outcome is Outcome.FAIL and verdict.value_gbps is not None and value != 1.0:
                if (limit := verdict.limit_gbps) and limit > self._limit.get(number, 0.0):
                    self._limit[number] = limit
                if verdict.against:
                    self._usual[number] = max(verdict.expected_gbps or 0.0, self._usual.get(number, 0.0))
            taken.append(probe)
            values.append(value)
            of_class.append(number)
            bad.append(verdict.outcome is self._outcome)
        self.of_class = np.array(of_class, dtype=np.int64)
        return taken, np.array(values, dtype=np.float64), np.array(bad, dtype=np.bool_)

    def _value(self, probe: Probe, verdict: ProbeVerdict, result: ProbeResult, *, failed: bool) -> float | None:
        """Return the number of a sample: NaN where it measured nothing, None if it tells nothing."""
        bad = verdict.outcome is self._outcome
        if self._outcome is not Outcome.FAIL:
            # A probe that measured anything, slow or not, had no error.
            silent = not bad and not verdict.outcome.is_good and verdict.value_gbps is None
            return None if silent else nan if bad else 1.0
        if verdict.value_gbps is None:
            return nan if bad else None
        if probe.kind == pairwise.KIND and not self._pairs:
            return None if bad or not failed else 1.0
        number = number_of(result)
        return verdict.value_gbps if number is None else number[0]

    def _fit(self, taken: Sequence[Probe], value: Floats) -> None:
        """Set the level, noise and floor of each class, and each sample's share of its level (log)."""
        first = np.unique(self.of_class, return_index=True)[1]
        self._kinds = [taken[i].kind for i in first.tolist()]
        count = len(self._kinds)
        self.level, self.noise = np.ones(count), np.full(count, _FEW_NOISE)
        self._anchored, silent = np.zeros((2, count), dtype=np.bool_)
        for number in range(count):
            mine = value[(self.of_class == number) & (value > 0)]
            limit, usual = self._limit.get(number, 0.0), self._usual.get(number, 0.0)
            few = len(mine) < LEAST_PEERS or self._kinds[number] not in PEER_KINDS
            if not few:
                self.level[number], self.noise[number] = level_and_noise(mine)
            elif len(mine) and not limit and not usual:  # nothing says what is normal, so nothing is slow
                self.level[number], silent[number] = mine.min(), True
            behind = usual > self.level[number] * exp(OF_FLOOR * floor_of(self._kinds[number]))
            anchor = max(limit, usual if few or behind else 0.0)
            if anchor and (few or anchor > self.level[number]):
                self.level[number], self._anchored[number] = anchor, True
        self.noise = np.maximum(self.noise, LEAST_SPREAD)
        least = np.array([OF_FLOOR * floor_of(kind) for kind in self._kinds])
        self._apart = least
        self._least = np.where(self._anchored, _LEAST_BELOW, least)  # below a limit any loss counts
        self._least[silent] = DEAD
        self.floor: Floats = np.maximum(self._least, SIGMAS * self.noise)
        share = np.maximum(value, 1e-9) / self.level[self.of_class]
        most = np.where(self._anchored, 0.0, SIGMAS * self.noise)  # more than normal, or than a limit, is no trouble
        self._y = np.clip(np.log(share), NOTHING, most[self.of_class])

    def matrix(self, known: AbstractSet[str] = frozenset()) -> tuple[SampleMatrix, list[Component]]:
        """Return the matrix for the search, and the parts of its columns; *known* ones are faulty by other evidence."""
        every = {host for row in self.rows for host in row.probe.hosts}
        times = len(self._topology.hosts) / max(1, len(every))
        slow = self._y < -self.floor[self.of_class]
        columns, entries = entries_of(map(self._parts, self.rows), slow, times=times, known=known)
        matrix = SampleMatrix(
            Cells(entries, self.of_class),
            y=self._y,
            of_class=self.of_class,
            at_s=np.array([row.result.started_s for row in self.rows]),
            normal=Normal.of_noise(self.noise, self.of_class),
            floor=self.floor,
            least=self._least,
            apart=self._apart,
            level=self.level * np.array([self._outcome is Outcome.FAIL and k in _ONE_FLOW for k in self._kinds]),
            lost=None if self._outcome is Outcome.FAIL else np.array([_is_lost(row) for row in self.rows]),
            beside=self._beside(),
            timed=len({row.probe.phase for row in self.rows}) > len(self._phases()),
        )
        return matrix, columns

    def _beside(self) -> Floats | float:
        """Return, for FAIL, what the slowest sample in the way of each reached, as a share of that one's level."""
        if self._outcome is not Outcome.FAIL:
            return inf
        beside = slowest_beside([row.probe for row in self.rows], self._results, self._topology)
        return as_shares(beside, self.level[self.of_class])

    def _phases(self) -> set[Hashable]:
        return {self._written.get(row.probe.phase, row.probe.phase) for row in self.rows}

    def _parts(self, row: PlacedSample) -> Iterator[Component]:
        probe, verdict = row.probe, row.verdict
        bad = verdict.outcome is self._outcome
        named = list(named_components_of(probe, verdict.named, self._topology)) if bad and verdict.named else []
        if named:
            yield from named
            return
        yield from components_of(probe, self._topology)
        if self._anchored[row.of_class]:
            platform = self._topology.hosts[probe.hosts[0]].platform.name
            hosts = tuple(name for name, host in self._topology.hosts.items() if host.platform.name == platform)
            if len(hosts) >= LEAST_ALIKE:
                yield Component(platform, "group", "nobody stands out: these hosts are slow as a whole")

    def low(self, *, among: int = 1) -> frozenset[str]:
        """
        Return the ids of probes whose verdict's number (for a repeated probe the median) is low by more than noise.

        With *among* numbers to choose from, it must be lower: by so much that hardly a healthy one of all of them is.
        """
        sigmas = max(SIGMAS, -NormalDist().inv_cdf(CHANCE / among))
        least = self.level * np.exp(-np.maximum(self._least, sigmas * self.noise))
        return frozenset(
            row.probe.probe_id
            for row in self.rows
            if row.verdict.value_gbps is not None and row.verdict.value_gbps < least[row.of_class]
        )


def entries_of(
    parts: Iterable[Iterable[Component]],
    slow: Bools,
    *,
    times: float = 1.0,
    known: AbstractSet[str] = frozenset(),
    rounds: bool = False,
) -> tuple[list[Component], Entries]:
    """
    Return the columns of a matrix, and the entries of those that any *slow* sample passes through.

    *parts* are those of each sample. There are *times* as many parts of a kind as the samples show. A *known* part
    costs nothing. *rounds*: a leaf is no likelier to be bad than an RNIC.
    """
    numbers: dict[tuple[str, str], int] = {}
    columns: list[Component] = []
    entries = array("q")
    for number, components in enumerate(parts):
        for component in {(one.name, one.kind): one for one in components}.values():
            column = numbers.setdefault((component.name, component.kind), len(columns))
            if column == len(columns):
                columns.append(component)
            way = numbers[component.way, component.kind] if component.way else UNKNOWN
            entries.extend((number, column, way))
    count = Counter((one.kind, one.way != "") for one in columns)  # bundles are counted apart
    least = count["rnic", False] if rounds else 1
    things = np.array([times * max(least, count[one.kind, one.way != ""]) for one in columns])
    cost = cost_of(things, np.array([EXTRA.get(one.kind, 0.0) for one in columns]))
    cost[[one.name in known for one in columns]] = 0.0
    found: Ints = np.array(entries, dtype=np.int64).reshape(-1, 3)
    sample, part, way = found.T
    shown = (np.bincount(part, slow[sample], minlength=len(columns)) > 0)[part]
    large = np.array([_is_large(one) for one in columns], dtype=np.bool_)
    return columns, Entries(
        sample[shown], part[shown], way[shown], cost, large, np.zeros_like(large), np.zeros(len(columns))
    )


def _is_large(component: Component) -> bool:
    """Return whether a component has smaller ones in it, as what all RNICs of a host take above the leaves."""
    part = Part.of(component.name)
    return component.kind in _LARGE or part.item == NVLINK or (part.aspect == "above" and not part.item)


def _is_lost(row: PlacedSample) -> bool:
    """Return whether a sample ended without a number, and no tool said what is bad."""
    return row.value_gbps is None and row.verdict.named is None


def _is_of_gpu(probe: Probe, verdict: ProbeVerdict) -> bool:
    """Return whether the probe measured a GPU that it named by its number."""
    measured = verdict.named is None and verdict.value_gbps is not None
    return measured and str(probe.params.get("endpoint", "gpu")).startswith("gpu")
