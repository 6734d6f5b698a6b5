"""Comparing two runs of the same probes: before and after a repair, a firmware, a setting.

Each probe is compared with itself. A probe that carried bytes in the first run and failed in the second is a loss
without a number; a component is WORSE for it if most of its probes are like that. The part that changed is the one that
the changed probes have in common. A median per component would not find it: it blames both ends of a bad cable, because
each end has only a few pairs. So the ratios are searched like the samples of a verdict (``locate/search.py``): one
matrix of all kinds of probes, in which a probe that did not change speaks for every part that it passes through.
Between leaves, the uplinks are parts, and the spine too where the switches' tables were read.

The number of a component is the median of the ratios of all probes through it, each paired with itself in the other
run. So link classes and partners cancel out, and a few probes that are slow because of their partner do not count
(``interval.of_median``). If ratios are few, the spread of all ratios of that kind and size is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

import numpy as np

from fabric.judge.locate.candidates import Component, components_of, named_components_of
from fabric.judge.locate.cells import NOTHING, Cells, SampleMatrix
from fabric.judge.locate.levels import LEAST_NOISE
from fabric.judge.locate.matrix import OF_FLOOR, SIGMAS, entries_of
from fabric.judge.locate.pairs.run_planes import routes_of
from fabric.judge.locate.search import CERTAIN, Search
from fabric.judge.locate.structure import FaultyPart, Floats, Normal
from fabric.judge.locate.suspects import EQUAL, restates
from fabric.judge.normal.interval import LEAST_PEERS, SCALE, of_median, spread_of
from fabric.judge.normal.keys import (
    Sample,
    SampleKey,
    bandwidths,
    ends_of,
    floor_of,
    grouped,
    leaf_of,
    rnics_of,
    samples,
    taking_part,
)
from fabric.judge.normal.series import DIP_SIGMAS, USUAL_CV
from fabric.model import gathered
from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import NamedPart, Probe, Results
from fabric.model.text import fold, some
from fabric.model.topology import Topology
from fabric.model.verdict import Recurrence
from fabric.probes import routes

Group = tuple[str, int | None]
"""What numbers must share to be compared: kind of probe and message size."""

Spreads = Mapping[Group, float | None]
"""By group, the standard deviation of the logarithm of one ratio; None if there are too few ratios."""


@dataclass(frozen=True, slots=True)
class ComparedProbe:
    """
    One probe that both runs measured, or that the fabric failed in one of them.

    *path* is its name where it is listed by itself. *logs* are the logarithms of the ratios of its repetitions, second
    run over first; empty if it carries nothing any more (*moved* is WORSE) or carries bytes again (BETTER). *named* is
    the part that a tool reported while it carried nothing.
    """

    group: Group
    probe: Probe
    path: str
    logs: tuple[float, ...] = ()
    moved: Difference | None = None
    named: NamedPart | None = None


def ways_of(
    runs: Iterable[tuple[Iterable[Probe], Results]], topology: Topology
) -> Callable[[ComparedProbe], Iterator[Component]]:
    """
    Return a function that yields the parts that a probe passes through, or that a tool named for it.

    It yields none if a host is not in the topology. Between leaves it yields the spine and its cables if the switches'
    tables were read, else all uplinks of both leaves.
    """
    known: dict[str, dict[tuple[str, str], str]] = {}
    for probes, results in runs:  # the last run's tables win: routes stay the same while nothing breaks
        tables = [one for one in probes if one.kind == routes.KIND and one.probe_id in results]
        known.update(routes_of([(one, results[one.probe_id]) for one in tables], topology))

    def parts(one: ComparedProbe) -> Iterator[Component]:
        probe = one.probe
        if one.named is not None:
            yield from named_components_of(probe, one.named, topology)
        elif all(name in topology.hosts for name in probe.hosts):
            yield from components_of(probe, topology)
            if "peer_rnic" in probe.params and len(probe.hosts) > 1:
                yield Component("+".join(sorted(rnics_of(probe))), "pair", "one of its ends, or what is between them")
                yield from _between(probe, topology, known)

    return parts


def _between(
    probe: Probe, topology: Topology, known: Mapping[str, Mapping[tuple[str, str], str]]
) -> Iterator[Component]:
    ends = [(topology.hosts[host], device) for host, device in ends_of(probe)]
    leaves = [leaf for host, device in ends if (leaf := leaf_of(host, device))]
    if len(leaves) < 2 or leaves[0] == leaves[1]:
        return
    receiver, device = ends[-1]
    target = receiver.platform.rnic_by_device[device]
    # The key is the name of a plane, as in ``probes/pairwise.py``.
    spine = known.get(f"rail{target.rail} {target.line_rate_gbps:g}G", {}).get((leaves[0], receiver.name))
    for leaf in leaves:
        if spine is None:
            yield Component(f"{leaf}:uplinks", "uplinks", f"the uplinks of {leaf}")
        else:
            yield Component(f"{leaf}--{spine}", "uplink", f"the cable between {leaf} and {spine}")
    if spine is not None:
        yield Component(spine, "spine", f"the spine switch {spine}")


def _logs_of(one: ComparedProbe, change: Difference) -> Iterator[float]:
    """
    Yield the logarithms of the ratios of a probe, negated if *change* is BETTER: then a gain looks like a loss.

    ``NOTHING`` stands for a probe that carries nothing on one side.
    """
    if one.moved is change:
        yield NOTHING
    for value in one.logs:
        yield value if change is Difference.WORSE else -value


def _culprits(
    seen: Sequence[ComparedProbe],
    ways: Callable[[ComparedProbe], Iterator[Component]],
    change: Difference,
    spreads: Spreads,
) -> Iterator[tuple[Compared, Sequence[ComparedProbe]]]:
    """Yield rows of the parts that explain what became worse (or better) among *seen*, the surest part first."""
    pairs = [(one, value) for one in seen for value in _logs_of(one, change)]
    both: list[ComparedProbe] = [one for one, _ in pairs]
    groups = {group: number for number, group in enumerate(dict.fromkeys(one.group for one in both))}
    of_class = np.array([groups[one.group] for one in both], dtype=np.int64)
    y: Floats = np.array([value for _, value in pairs])
    least = np.array([OF_FLOOR * floor_of(kind) for kind, _ in groups])
    noise = np.array([_noise(y[of_class == number]) for number in groups.values()])
    floor = np.maximum(least, SIGMAS * noise) if groups else least
    if not groups or not (y < -floor[of_class]).any():
        return
    columns, entries = entries_of(map(ways, both), y < -floor[of_class])
    y, nothing = np.clip(y, NOTHING, SIGMAS * noise[of_class]), np.zeros(len(y))
    normal = Normal.of_noise(noise, of_class)
    cells = Cells(entries, of_class)
    matrix = SampleMatrix(cells, y, of_class, nothing, normal, floor, least, apart=least, level=nothing[: len(groups)])
    search = Search(matrix)
    for fault in search.faults():
        if search.matters(fault):
            through = [i for one in fault.losses for i in search.cells.samples_of(one.cell).tolist()]
            mine = list({id(both[i]): both[i] for i in through}.values())
            dead = any(y[i] <= NOTHING for i in through)  # the fabric failed the probe: that is no noise
            certain = dead or fault.gain >= CERTAIN
            if certain or change is Difference.WORSE:
                yield from _rows_of_culprit(*_named(fault, columns), mine, change, spreads, certain=certain)


def _noise(y: Floats) -> float:
    """
    Return the noise of one ratio from its logarithms *y*, or the usual noise if too few of them are above 0.

    Only those above 0 count: a fault makes no ratio larger.
    """
    above = y[y > 0]
    return max(SCALE * float(np.median(above)), LEAST_NOISE) if len(above) >= LEAST_PEERS else USUAL_CV


def _named(fault: FaultyPart, columns: Sequence[Component]) -> tuple[str, list[str]]:
    """Return the name of a part and its rivals; two ends measured only with each other get the name of the pair."""
    mine, rivals = columns[fault.part], [(columns[part], gain) for part, gain in fault.rivals]
    other_end = any(one.kind == mine.kind and gain > fault.gain - EQUAL for one, gain in rivals)
    whole = next((one for one, _ in rivals if other_end and one.kind == "pair"), None)
    others = () if whole else (one.name for one, _ in rivals if not restates(mine, one))
    return str(Part.of((whole or mine).name).both_ways), list(dict.fromkeys(others))


_Name = tuple[str, SampleKey]  # the phase, and the key of the sample in it
_Named = dict[_Name, tuple[Probe, list[Sample]]]
"""A probe and its repetitions in order."""

_MEASURED, _FAILED, _NOT_MEASURED, _NOT_ASKED = "measured", "failed", "not measured", "not asked"
_LEFT_OUT, _NO_BANDWIDTH = "left out", "no bandwidth"
_CARRIED = (_MEASURED, _FAILED)
_MOVED = {
    (_MEASURED, _MEASURED): None,
    (_MEASURED, _FAILED): Difference.WORSE,
    (_FAILED, _MEASURED): Difference.BETTER,
}


def compare_runs(
    first: tuple[Sequence[Probe], Results],
    second: tuple[Sequence[Probe], Results],
    *,
    topology: Topology,
    added: tuple[Collection[str], Collection[str]] = ((), ()),
) -> Comparison:
    """
    Compare the probes and results of two runs, component by component.

    *topology* is that of the second run; it says what lies between two hosts. *added*: the ids of the probes that each
    run measured beyond its plan; the other run need not have them.
    """
    a, b = (_by_name(*run) for run in (first, second))
    states = {name: (_state(a.get(name)), _state(b.get(name))) for name in dict.fromkeys((*a, *b))}
    both = {name: seen for name, of_both in states.items() if (seen := _seen(name, a, b, of_both)) is not None}
    left = {name: of_both for name, of_both in states.items() if name not in both}
    planned = {name for run, ids in zip((a, b), added, strict=True) for name in run if run[name][0].probe_id not in ids}
    missing = [name for name, of_both in left.items() if name in planned and _is_missing(*of_both)]
    first_only = {name: after for name, (before, after) in left.items() if before in _CARRIED and after not in _CARRIED}
    second_only = {
        name: before for name, (before, after) in left.items() if after in _CARRIED and before not in _CARRIED
    }
    return Comparison(
        rows=tuple(sorted(rows_of(list(both.values()), ways_of((first, second), topology)), key=_worst_first)),
        common=len(both),
        only_first=tuple(_only(first_only, "second", b)),
        only_second=tuple(_only(second_only, "first", a)),
        in_neither=tuple(
            _in_words([name for name in missing if name not in first_only and name not in second_only], b)
        ),
        unmeasured=len(missing),
        measured_first=sum(before in _CARRIED for before, _ in states.values()),
        measured_second=sum(after in _CARRIED for _, after in states.values()),
    )


def _is_missing(before: str, after: str) -> bool:
    """
    Return whether a probe that is not compared leaves open if something changed.

    One that failed in both runs did not change, nor is one without a bandwidth compared at all. One that the first run
    left out because of a host that did not pass became possible: why it was left out is compared by itself.
    """
    if (before, after) == (_FAILED, _FAILED) or _NO_BANDWIDTH in (before, after):
        return False
    return before != _LEFT_OUT or after not in _CARRIED


def _only(names: Mapping[_Name, str], other: str, there: _Named) -> Iterator[str]:
    """
    Yield in words what one run measured, those first that the *other* was asked for, too.

    *names* has the states of the other, *there* what it has of them.
    """
    for asked in (True, False):
        note = f", asked of the {other} run, too, and not measured there" if asked else ""
        yield from _in_words([name for name, state in names.items() if (state != _NOT_ASKED) is asked], there, note)


def _by_name(probes: Sequence[Probe], results: Results) -> _Named:
    found: _Named = {}
    for probe in probes:
        for sample in samples((probe,), results) if probe.kind != routes.KIND else ():
            found.setdefault((sample.phase, sample.key), (probe, []))[1].append(sample)
    return found


def _state(found: tuple[Probe, Sequence[Sample]] | None) -> str:
    """Return how the repetitions of one probe ended: one failure outweighs all numbers, one number is enough else."""
    if found is None:
        return _NOT_ASKED
    repetitions = found[1]
    results = [one.result for one in repetitions if one.result is not None]
    if any(one.gave_up for one in repetitions) or any(one.outcome is Outcome.FAIL for one in results):
        return _FAILED
    if any(one.value_gbps for one in repetitions):
        return _MEASURED
    if any(one.outcome is None and not bandwidths(one) for one in results):
        return _NO_BANDWIDTH
    return _LEFT_OUT if any(one.outcome is Outcome.SKIPPED for one in results) else _NOT_MEASURED


def _seen(name: _Name, a: _Named, b: _Named, of_both: tuple[str, str]) -> ComparedProbe | None:
    """Return what both runs measured of a probe; None if one of them says nothing of it."""
    if of_both not in _MOVED:
        return None
    (_, before), (probe, after) = a[name], b[name]
    seen, moved = ComparedProbe((probe.kind, name[1].size_bytes), probe, _path(probe)), _MOVED[of_both]
    if moved is not None:
        results = [one.result for one in (*before, *after) if one.result is not None]
        return replace(seen, moved=moved, named=next((one.named for one in results if one.named is not None), None))
    pairs = [(old.value_gbps, new.value_gbps) for old, new in zip(before, after, strict=False)]
    logs = tuple(log(new / old) for old, new in pairs if old and new)
    return replace(seen, logs=logs) if logs else None


def _path(probe: Probe) -> str:
    """Return a name for a probe: its two RNICs in sorted order, whichever sent; else its hosts and series."""
    if "peer_rnic" in probe.params and len(probe.hosts) > 1:
        return "+".join(sorted(rnics_of(probe)))
    return f"{'+'.join(probe.hosts)}/{probe.params.get('series')}"


def _worst_first(row: Compared) -> tuple[int, float, bool, str]:
    position = list(Difference).index(row.change)
    lost = row.ratio if row.ratio is not None else (0.0 if row.change is Difference.WORSE else 1.0)
    return position, lost, row.component != WHOLE, row.component


def _in_words(names: Sequence[_Name], there: _Named, note: str = "") -> Iterator[str]:
    """Yield one text per phase and kind: how many measurements, on which hosts (folded), and why not in a run."""
    for (phase, kind), alike in grouped(names, lambda name: (name[0], name[1].kind)).items():
        hosts = fold(dict.fromkeys(host for _, key in alike for host in key.hosts))
        found = [one.result for name in alike if name in there for one in there[name][1] if one.result is not None]
        reasons = [*dict.fromkeys(one.reason for one in found if one.reason)]
        why = f": {'first ' if len(reasons) > 1 else ''}{reasons[0]}" if reasons else ""
        yield f"{len(alike)} {kind} of {phase} on {hosts}{note}{why}"


_CHANGED = (Difference.WORSE, Difference.BETTER)
_AGAIN = Recurrence.SEEN_ONCE.value


def rows_of(seen: Sequence[ComparedProbe], ways: Callable[[ComparedProbe], Iterator[Component]]) -> list[Compared]:
    """
    Return one row per component, kind and size, and rows of the parts that changed.

    A component is WORSE or BETTER if it explains what changed, or if everything of that kind and size changed. Probes
    that such a part explains are left out when the other components are judged.
    """
    groups = grouped(seen, lambda one: one.group)
    spreads = _spreads(groups)
    whole = {group: list(_rows(group, mine, spreads[group])) for group, mine in groups.items()}
    everything = {group: next(row.change for row in rows if row.component == WHOLE) for group, rows in whole.items()}
    several = {group for group, mine in groups.items() if len({one.path for one in mine}) > 1}
    moved = {group for group, change in everything.items() if change in _CHANGED and group in several}
    found = [row for group in moved for row in whole[group]]
    rest = [one for one in seen if one.group not in moved]
    explained: set[int] = set()
    for change in _CHANGED:
        for row, mine in _culprits(rest, ways, change, spreads):
            found.append(row)
            explained |= {id(one) for one in mine}
    for group, mine in groups.items():
        if group not in moved:
            left = [one for one in mine if id(one) not in explained]
            found += _far_out(group, left, spreads[group])
            found += [_by_itself(row) for row in _rows(group, left, spreads[group])]
    return found


def _far_out(group: Group, left: Iterable[ComparedProbe], spread: float | None) -> Iterator[Compared]:
    """Yield single probes that changed by as much as a dip and that no part explains; of 300,000 healthy ones, none."""
    for one in left if spread is not None else ():
        middle = median(one.logs) if one.logs else 0.0
        if abs(exp(middle) - 1) >= floor_of(group[0]) and abs(middle) >= DIP_SIGMAS * (spread or 0.0):
            yield Compared(one.path, *group, Difference.INCONCLUSIVE, len(one.logs), exp(middle), note=_AGAIN)


def _spreads(groups: Mapping[Group, Sequence[ComparedProbe]]) -> Spreads:
    """Return the spread of one ratio by kind and size; if these have too few ratios, that of the whole kind."""
    of_kind = grouped((one for mine in groups.values() for one in mine), lambda one: one.group[0])
    return {group: spread_of(_logs(mine)) or spread_of(_logs(of_kind[group[0]])) for group, mine in groups.items()}


def _logs(mine: Iterable[ComparedProbe]) -> list[float]:
    return [value for one in mine for value in one.logs]


def _rows(group: Group, seen: Iterable[ComparedProbe], spread: float | None) -> Iterator[Compared]:
    """Yield one row per component of a group, and one for the whole."""
    through = gathered((part, one) for one in seen for part in (WHOLE, *taking_part(one.probe)))
    for part, mine in through.items():
        yield _row(part, group, mine, spread)


def _row(part: str, group: Group, mine: Sequence[ComparedProbe], spread: float | None) -> Compared:
    logs = _logs(mine)
    lost, regained = (sum(one.moved is change for one in mine) for change in _CHANGED)
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
    """Return WORSE or BETTER if the whole interval is beyond the floor, SAME if it lies above the lower floor."""
    low, high = bounds
    if high < 1 - floor:
        return Difference.WORSE
    if low > 1 + floor:
        return Difference.BETTER
    return Difference.SAME if low > 1 - floor else Difference.INCONCLUSIVE


def _by_itself(row: Compared) -> Compared:
    """Return the row of a part that explains no change: WORSE becomes INCONCLUSIVE, BETTER becomes SAME."""
    if row.component == WHOLE:
        return row
    if row.change is Difference.WORSE:
        return replace(row, change=Difference.INCONCLUSIVE, note="no part explains it alone: measure it again")
    return replace(row, change=Difference.SAME) if row.change is Difference.BETTER else row


def _rows_of_culprit(
    name: str,
    others: Sequence[str],
    explained: Sequence[ComparedProbe],
    change: Difference,
    spreads: Spreads,
    *,
    certain: bool,
) -> Sequence[tuple[Compared, Sequence[ComparedProbe]]]:
    """
    Return the rows of a part, one for each kind and size, each with the probes that it explains.

    If no row shows the change for certain, return only the first, as INCONCLUSIVE: to be measured again.
    """
    rivals = [f"or {some(others)}: nothing tells them apart"] if others else []
    sure, open_ = [], []
    for group, mine in grouped(explained, lambda one: one.group).items():
        row = _row(name, group, mine, spreads[group])
        notes = [row.note] if any(one.moved is not None for one in mine) else []
        # What the search is certain of may be two dips: a part changed only if its own interval is beyond the floor.
        if certain and (notes or row.change is change):
            sure.append((replace(row, change=change, note="; ".join([*notes, *rivals])), mine))
        else:
            open_.append((row, mine))
    if sure:
        return sure + [(_by_itself(row), mine) for row, mine in open_]
    row, mine = open_[0]
    once = _AGAIN if row.n < 2 else "no further from no change than noise goes: measure it again"
    return [(replace(row, change=Difference.INCONCLUSIVE, note="; ".join([once, *rivals])), mine)]
