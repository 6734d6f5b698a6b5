"""
Two runs of the same things: before and after a repair, a firmware, a setting.

Each probe is compared with itself. A probe that carried bytes before and that the fabric failed afterwards is a loss
without a number, and counts for its components when most of their probes are like that. What changed is named by what
the changed probes have in common: a median by component blames both ends of a bad cable, for each has but a few pairs.
So the ratios are searched as a verdict's samples are (``locate/inside.py``): one matrix of all kinds of probes, in
which a probe that did not change speaks for every part that it passes through. Between leaves the uplinks and the spine
are parts, too, where the switches' tables were read.

The number of a component is the median of the ratios of all probes through it, each paired with itself in the other
run, so that link classes and partners cancel out, and a few probes that are slow for their partner's sake do not count
(``interval.of_median``). Where ratios are few, the spread of all of that kind and size is taken for theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

import numpy as np

from fabric.judge.locate.candidates import Component, components_of, named_components_of
from fabric.judge.locate.cells import NOTHING, SampleMatrix
from fabric.judge.locate.inside import Search
from fabric.judge.locate.levels import LEAST_NOISE
from fabric.judge.locate.matrix import OF_FLOOR, SIGMAS, entries_of
from fabric.judge.locate.pairs.run_planes import routes_of
from fabric.judge.locate.search import CERTAIN
from fabric.judge.locate.structure import FaultyPart, Floats
from fabric.judge.locate.suspects import EQUAL, restates
from fabric.judge.normal.interval import of_median, spread_of
from fabric.judge.normal.keys import floor_of, leaf_of, rnics_of, taking_part
from fabric.judge.normal.samples import Sample, SampleKey, samples
from fabric.judge.normal.series import DIP_SIGMAS, USUAL_CV
from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import NamedPart, Probe, Results
from fabric.model.text import fold
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

    def __init__(self, runs: Iterable[tuple[Iterable[Probe], Results]], topology: Topology) -> None:
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
        # As ``probes/pairwise.py`` names a plane.
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
        noise=noise,
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
    through = [i for one in fault.losses for i in search.samples_of(one.cell).tolist()]
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


_Name = tuple[str, SampleKey]  # phase and what was measured in it
_Named = dict[_Name, tuple[Probe, list[Sample]]]
"""A probe and its repetitions in order."""

_MEASURED, _FAILED, _NOT_MEASURED, _NOT_ASKED = "measured", "failed", "not measured", "not asked"
_CARRIED = (_MEASURED, _FAILED)


def compare_runs(
    first: tuple[Sequence[Probe], Results],
    second: tuple[Sequence[Probe], Results],
    *,
    topology: Topology,
) -> Comparison:
    """
    The planned probes and results of both runs, by component.

    *topology* says what lies between two hosts, as the second run knows it.
    """
    a, b = (_by_name(*run) for run in (first, second))
    states = {name: (_state(a.get(name)), _state(b.get(name))) for name in dict.fromkeys((*a, *b))}
    both = {name: seen for name, of_both in states.items() if (seen := _seen(name, a, b, of_both)) is not None}
    left = {name: of_both for name, of_both in states.items() if name not in both}
    unmeasured = [name for name, of_both in left.items() if of_both == (_MEASURED, _NOT_MEASURED)]
    only_first = [name for name, (before, _) in left.items() if before == _MEASURED and name not in set(unmeasured)]
    only_second = [name for name, (before, after) in left.items() if before != _MEASURED and after == _MEASURED]
    return Comparison(
        rows=tuple(sorted(rows_of(list(both.values()), Ways((first, second), topology)), key=_worst_first)),
        common=len(both),
        only_first=(
            *(f"{text}, asked of the second run, too, and not measured there" for text in _in_words(unmeasured)),
            *_in_words(only_first),
        ),
        only_second=tuple(_in_words(only_second)),
        unmeasured=len(unmeasured),
        measured_first=sum(before in _CARRIED for before, _ in states.values()),
        measured_second=sum(after in _CARRIED for _, after in states.values()),
    )


def _by_name(probes: Sequence[Probe], results: Results) -> _Named:
    found: _Named = {}
    for probe in probes:
        for sample in samples((probe,), results) if probe.kind != routes.KIND else ():
            found.setdefault((sample.phase, sample.key), (probe, []))[1].append(sample)
    return found


def _state(found: tuple[Probe, Sequence[Sample]] | None) -> str:
    """What became of the repetitions of one probe: a fault outweighs a number, a number outweighs none."""
    if found is None:
        return _NOT_ASKED
    repetitions = found[1]
    if any(one.gave_up or (one.result is not None and one.result.outcome is Outcome.FAIL) for one in repetitions):
        return _FAILED
    return _MEASURED if any(one.value_gbps for one in repetitions) else _NOT_MEASURED


def _seen(name: _Name, a: _Named, b: _Named, of_both: tuple[str, str]) -> Both | None:
    """What both runs say of a probe; None where one of them says nothing."""
    if of_both not in ((_MEASURED, _MEASURED), (_MEASURED, _FAILED), (_FAILED, _MEASURED)):
        return None
    (_, before), (probe, after) = a[name], b[name]
    pairs = [(old.value_gbps, new.value_gbps) for old, new in zip(before, after, strict=False)]
    logs = tuple(log(new / old) for old, new in pairs if old and new) if _FAILED not in of_both else ()
    if not logs and _FAILED not in of_both:
        return None
    failed = [one.result.named for one in (*before, *after) if one.result is not None and one.result.named is not None]
    return Both(
        (probe.kind, name[1].size_bytes),
        probe,
        _path(probe),
        logs,
        lost=of_both[1] == _FAILED,
        regained=of_both[0] == _FAILED,
        named=failed[0] if failed and not logs else None,
    )


def _path(probe: Probe) -> str:
    """Two RNICs of two hosts by their names, whichever of them sent; else hosts and series."""
    if "peer_rnic" in probe.params and len(probe.hosts) > 1:
        return "+".join(sorted(rnics_of(probe)))
    return f"{'+'.join(probe.hosts)}/{probe.params.get('series')}"


def _worst_first(row: Compared) -> tuple[int, float, bool, str]:
    position = list(Difference).index(row.change)
    lost = row.ratio if row.ratio is not None else (0.0 if row.change is Difference.WORSE else 1.0)
    return position, lost, row.component != WHOLE, row.component


def _in_words(names: Sequence[_Name]) -> Iterator[str]:
    """Counted by phase and kind, hosts folded."""
    groups: dict[tuple[str, str], list[SampleKey]] = {}
    for phase, key in names:
        groups.setdefault((phase, key.kind), []).append(key)
    for (phase, kind), keys in groups.items():
        yield f"{len(keys)} {kind} of {phase} on {fold(dict.fromkeys(host for key in keys for host in key.hosts))}"


_NAMED_MOST = 4
_CHANGED = (Difference.WORSE, Difference.BETTER)
_AGAIN = "seen once: measure it again"


def rows_of(seen: Sequence[Both], ways: Ways) -> list[Compared]:
    """
    One row a component, kind and size, and those of the parts that changed.

    A component is WORSE or BETTER where it explains what changed, or where everything did; whose numbers moved for
    another's sake is judged by the others.
    """
    groups: defaultdict[Group, list[Both]] = defaultdict(list)
    for one in seen:
        groups[one.group].append(one)
    spreads = _spreads(groups)
    whole = {group: list(_rows(group, mine, spreads[group])) for group, mine in groups.items()}
    moved = {group for group, mine in groups.items() if _all_moved(whole[group], mine)}
    found = [row for group in moved for row in whole[group]]
    rest = [one for one in seen if one.group not in moved]
    explained: set[int] = set()
    for change in _CHANGED:
        for culprit in culprits(rest, ways, worse=change is Difference.WORSE):
            if culprit.certain or change is Difference.WORSE:
                for row, mine in _culprit_rows(culprit, change, spreads):
                    found.append(row)
                    explained |= {id(one) for one in mine}
    for group, mine in groups.items():
        if group not in moved:
            left = [one for one in mine if id(one) not in explained]
            found += _far_out(group, left, spreads[group])
            found += [_by_itself(row) for row in _rows(group, left, spreads[group])]
    return found


def _far_out(group: Group, left: Iterable[Both], spread: float | None) -> Iterator[Compared]:
    """Single probes that changed as far as a dip is deep, where no part explains it; of 300,000 healthy ones none."""
    for one in left if spread is not None else ():
        middle = median(one.logs) if one.logs else 0.0
        if abs(exp(middle) - 1) >= floor_of(group[0]) and abs(middle) >= DIP_SIGMAS * (spread or 0.0):
            yield Compared(one.path, *group, Difference.INCONCLUSIVE, len(one.logs), exp(middle), note=_AGAIN)


def _all_moved(rows: Sequence[Compared], seen: Sequence[Both]) -> bool:
    whole = next(row.change for row in rows if row.component == WHOLE)
    return whole in _CHANGED and len({one.path for one in seen}) > 1


def _spreads(groups: Mapping[Group, Sequence[Both]]) -> dict[Group, float | None]:
    """Of one ratio, by kind and size; where those are few, of the kind."""
    logs = {group: _logs(mine) for group, mine in groups.items()}
    of_kind: defaultdict[str, list[float]] = defaultdict(list)
    for (kind, _), values in logs.items():
        of_kind[kind] += values
    return {group: spread_of(values) or spread_of(of_kind[group[0]]) for group, values in logs.items()}


def _logs(mine: Iterable[Both]) -> list[float]:
    return [value for one in mine for value in one.logs]


def _rows(group: Group, seen: Iterable[Both], spread: float | None) -> Iterator[Compared]:
    """One row a component."""
    through: defaultdict[str, list[Both]] = defaultdict(list)
    for one in seen:
        for part in (WHOLE, *taking_part(one.probe)):
            through[part].append(one)
    for part, mine in through.items():
        yield _row(part, group, mine, spread)


def _row(part: str, group: Group, mine: Sequence[Both], spread: float | None) -> Compared:
    logs, lost, regained = _logs(mine), sum(one.lost for one in mine), sum(one.regained for one in mine)
    n, note = len(logs), f"{lost} probes carry nothing any more" if lost else ""
    if lost > max(n, regained):
        return Compared(part, *group, Difference.WORSE, n, note=note)
    if regained > max(n, lost):
        return Compared(part, *group, Difference.BETTER, n, note=f"{regained} probes carry bytes again")
    if not n:
        return Compared(part, *group, Difference.INCONCLUSIVE, 0, note="lost some probes, regained as many")
    ratio, bounds = exp(median(logs)), of_median(logs, spread)
    if bounds is None:
        return Compared(part, *group, Difference.INCONCLUSIVE, n, ratio, note="too few to know the spread")
    return Compared(part, *group, _change_of(bounds, floor_of(group[0])), n, ratio, *bounds, note)


def _change_of(bounds: tuple[float, float], floor: float) -> Difference:
    """WORSE and BETTER when the whole interval is beyond the floor, SAME when it does not reach the lower one."""
    low, high = bounds
    if high < 1 - floor:
        return Difference.WORSE
    if low > 1 + floor:
        return Difference.BETTER
    return Difference.SAME if low > 1 - floor else Difference.INCONCLUSIVE


def _by_itself(row: Compared) -> Compared:
    """A part that explains nothing of what changed."""
    if row.component == WHOLE:
        return row
    if row.change is Difference.WORSE:
        return replace(row, change=Difference.INCONCLUSIVE, note="no part explains it alone: measure it again")
    return replace(row, change=Difference.SAME) if row.change is Difference.BETTER else row


def _culprit_rows(
    culprit: Culprit, change: Difference, spreads: Mapping[Group, float | None]
) -> list[tuple[Compared, Sequence[Both]]]:
    """Its row for each kind and size, with the probes; where none shows it surely, the first, to be measured again."""
    others = culprit.rivals
    more = f" and {len(others) - _NAMED_MOST} more" if len(others) > _NAMED_MOST else ""
    rivals = [f"or {', '.join(others[:_NAMED_MOST])}{more}: nothing tells them apart"] if others else []
    sure, open_ = [], []
    for group, mine in culprit.through.items():
        row = _row(culprit.component, group, mine, spreads[group])
        said = [row.note] if any(one.lost or one.regained for one in mine) else []
        # What is certain for the search may be two dips: no part changed whose own interval does not leave the floor.
        if culprit.certain and (said or row.change is change):
            sure.append((replace(row, change=change, note="; ".join([*said, *rivals])), mine))
        else:
            open_.append((row, mine))
    if sure:
        return sure + [(_by_itself(row), mine) for row, mine in open_]
    row, mine = open_[0]
    once = _AGAIN if row.n < 2 else "no further from no change than noise goes: measure it again"
    return [(replace(row, change=Difference.INCONCLUSIVE, note="; ".join([once, *rivals])), mine)]
