"""
What became worse, or better, from one run to another: the parts that explain the ratios of all probes in both.

A median by component blames both ends of a bad cable, for each has but a few pairs. So the ratios are searched as a
verdict's samples are (``locate/search.py``): one matrix of all kinds of probes, in which a probe that did not change
speaks for every part that it passes through. Between leaves the uplinks and the spine are parts, too, where the
switches' tables were read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fabric.judge.locate.candidates import Component, components_of, named_components_of
from fabric.judge.locate.cells import NOTHING, SampleMatrix
from fabric.judge.locate.levels import LEAST_NOISE
from fabric.judge.locate.matrix import OF_FLOOR, SIGMAS, entries_of
from fabric.judge.locate.pairs.run_planes import routes_of
from fabric.judge.locate.search import CERTAIN, Search
from fabric.judge.locate.structure import FaultyPart, Floats, Normal
from fabric.judge.locate.suspects import EQUAL, restates
from fabric.judge.normal.keys import floor_of, leaf_of, rnics_of
from fabric.judge.normal.series import USUAL_CV
from fabric.model.part import Part
from fabric.model.probe import NamedPart, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import routes

_PRIOR_COUNT = 4.0  # ratios that the usual spread counts as (a choice)

Group = tuple[str, int | None]
"""What numbers must share to be alike: kind and message size."""


@dataclass(frozen=True, slots=True)
class Both:
    """
    One probe that both runs measured, or that the fabric failed in one of them.

    *path* is what it is called where it is listed by itself. *logs* are the logarithms of its repetitions over
    themselves in the other run; *lost*: it carries nothing any more, *regained*: it does again.
    """

    group: Group
    probe: Probe
    path: str
    logs: tuple[float, ...] = ()
    lost: bool = False
    regained: bool = False
    named: NamedPart | None = None  # what a tool said of it while it carried nothing


@dataclass(frozen=True, slots=True)
class Culprit:
    """
    A part that explains why probes changed: all *through* it, by group, in those groups that show it.

    *rivals* explain the same nearly as well. *certain*: by enough samples to be called changed.
    """

    component: str
    rivals: tuple[str, ...]
    through: Mapping[Group, Sequence[Both]]
    certain: bool


class Ways:
    """What each probe passes through, between leaves with what tables say, as far as these were read."""

    def __init__(self, runs: Iterable[tuple[Iterable[Probe], Mapping[str, ProbeResult]]], topology: Topology) -> None:
        self._topology = topology
        self._known: dict[str, dict[tuple[str, str], str]] = {}
        for probes, results in runs:  # what the last run read counts: routes stay while nothing breaks
            tables = [
                (one, results[one.probe_id]) for one in probes if one.kind == routes.KIND and one.probe_id in results
            ]
            self._known.update(routes_of(tables, topology))

    def parts(self, one: Both) -> Iterator[Component]:
        """Every part that a probe passes through, or those that a tool named; none of hosts that are not known."""
        probe = one.probe
        if one.named is not None:
            yield from named_components_of(probe, one.named, self._topology)
        elif all(name in self._topology.hosts for name in probe.hosts):
            yield from components_of(probe, self._topology)
            yield from self._between(probe)

    def _between(self, probe: Probe) -> Iterator[Component]:
        """The two RNICs together; the uplinks and the spine, or all uplinks of both leaves where which is not known."""
        if "peer_rnic" not in probe.params or len(probe.hosts) < 2:
            return
        yield Component("+".join(sorted(rnics_of(probe))), "pair", "one of its ends, or what is between them")
        ends = (probe.hosts[0], "rnic"), (probe.hosts[-1], "peer_rnic")
        leaves = [leaf for host, end in ends if (leaf := leaf_of(self._topology.hosts[host], str(probe.params[end])))]
        if len(leaves) < 2 or leaves[0] == leaves[1]:
            return
        target = self._topology.hosts[probe.hosts[-1]].platform.rnic_by_device[str(probe.params["peer_rnic"])]
        # As ``probes/pairs.py`` names a plane.
        table = self._known.get(f"rail{target.rail} {target.line_rate_gbps:g}G", {})
        spine = table.get((leaves[0], probe.hosts[-1]))
        if spine is None:
            for leaf in leaves:
                yield Component(f"{leaf}:uplinks", "uplinks", f"the uplinks of {leaf}")
            return
        for leaf in leaves:
            yield Component(f"{leaf}--{spine}", "uplink", f"the cable between {leaf} and {spine}")
        yield Component(spine, "spine", f"the spine switch {spine}")


def culprits(seen: Sequence[Both], ways: Ways, *, worse: bool) -> list[Culprit]:
    """The parts that explain what became worse (else better) among *seen*, the surest first."""
    samples = [(one, value) for one in seen for value in _values(one, worse=worse)]
    groups: dict[Hashable, int] = {}
    of_class = np.array([groups.setdefault(one.group, len(groups)) for one, _ in samples], dtype=np.int64)
    y: Floats = np.array([value for _, value in samples])
    least = np.array([OF_FLOOR * floor_of(one.group[0]) for one in {s.group: s for s, _ in samples}.values()])
    noise = np.array([_noise(y[of_class == number]) for number in range(len(groups))])
    floor = np.maximum(least, SIGMAS * noise) if len(groups) else least
    if not len(y) or not (y < -floor[of_class]).any():
        return []
    columns, entries = entries_of((ways.parts(one) for one, _ in samples), y < -floor[of_class])
    matrix = SampleMatrix(
        entries,
        y=np.clip(y, NOTHING, SIGMAS * noise[of_class]),
        of_class=of_class,
        at_s=np.zeros(len(y)),
        normal=Normal.of_noise(noise, of_class),
        floor=floor,
        least=least,
        apart=least,
        level=np.zeros(len(groups)),
    )
    search = Search(matrix)
    both = [one for one, _ in samples]
    return [_culprit(one, search, columns, both) for one in search.faults() if search.matters(one)]


def _values(one: Both, *, worse: bool) -> Iterator[float]:
    """The logarithms of its ratios, of those that became better the other way round; nothing is a hundredth."""
    if one.lost if worse else one.regained:
        yield NOTHING
    for value in one.logs:
        yield value if worse else -value


def _noise(y: Floats) -> float:
    """Of one ratio, from those above 1: nothing broken makes them larger. Few are drawn to what is usual."""
    above = y[y > 0]
    seen = 1.4826 * float(np.median(above)) if len(above) else USUAL_CV
    drawn = (len(above) * seen**2 + _PRIOR_COUNT * USUAL_CV**2) / (len(above) + _PRIOR_COUNT)
    return max(float(np.sqrt(drawn)), LEAST_NOISE)


def _named(fault: FaultyPart, columns: Sequence[Component]) -> tuple[Component, list[Component]]:
    """A part and its rivals; of two ends that were measured only with each other, what they are together."""
    mine = columns[fault.part]
    rivals = [(columns[part], gain) for part, gain in fault.rivals]
    other_end = any(one.kind == mine.kind and gain > fault.gain - EQUAL for one, gain in rivals)
    for whole, _ in rivals if other_end else ():
        if whole.kind == "pair":
            return whole, []
    return mine, [one for one, _ in rivals if not restates(mine, one)]


def _culprit(fault: FaultyPart, search: Search, columns: Sequence[Component], both: Sequence[Both]) -> Culprit:
    through = [i for one in fault.losses for i in search.cells.samples_of(one.cell).tolist()]
    probes: dict[Group, dict[int, Both]] = {}
    for i in through:
        probes.setdefault(both[i].group, {})[id(both[i])] = both[i]
    mine, rivals = _named(fault, columns)
    dead = any(search.matrix.y[i] <= NOTHING for i in through)  # which the fabric's own word is, and no noise
    return Culprit(
        str(Part.of(mine.name).both_ways),
        tuple(dict.fromkeys(one.name for one in rivals)),
        {group: tuple(members.values()) for group, members in probes.items()},
        certain=dead or fault.gain >= CERTAIN,
    )
