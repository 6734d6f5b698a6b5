"""
Two runs of the same things: before and after a repair, a firmware, a setting.

Each probe is compared with itself. A probe that carried bytes before and that the fabric failed afterwards is a loss
without a number, and counts for its components when most of their probes are like that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import exp, log
from statistics import median

from fabric.analysis.keys import floor_of
from fabric.analysis.run_ratio import change_of, intervals, spread_of
from fabric.analysis.samples import Key, Sample, name_of, samples
from fabric.model.comparison import Change, Compared, Comparison
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult

WHOLE = "everything"
"""The component that every probe passes through."""

FAR_OUT = 5.0
"""A single probe that lies so many spreads from no change is worth a row of its own (a choice: of 300,000 healthy ones
none does)."""

_Group = tuple[str, int | None]  # kind and size
_Name = tuple[str, Key]  # phase and what was measured in it


@dataclass(slots=True)
class _Tally:
    """What happened to the probes of one component, kind and size."""

    logs: list[float] = field(default_factory=list)
    lost: int = 0
    regained: int = 0


def compare_runs(
    first: tuple[Sequence[Probe], Mapping[str, ProbeResult]],
    second: tuple[Sequence[Probe], Mapping[str, ProbeResult]],
    *,
    seed: int = 0,
) -> Comparison:
    """The planned probes and results of both runs, by component; *seed* is the bootstrap's."""
    a, b = (_by_name(*run) for run in (first, second))
    tallies: dict[_Group, dict[str, _Tally]] = {}
    single: dict[_Group, dict[_Name, list[float]]] = {}
    parts = {_place(probe): tuple(parts_of(probe)) for run in (first, second) for probe in run[0]}
    only_first, only_second, unmeasured, common = [], [], 0, 0
    measured_first, measured_second = 0, 0
    for name in dict.fromkeys((*a, *b)):
        before, after = _state(a.get(name)), _state(b.get(name))
        measured_first += before in _CARRIED
        measured_second += after in _CARRIED
        phase, key = name
        group = (key.kind, key.size_bytes)
        around = (WHOLE, *parts[phase, key.kind, key.name, key.hosts, key.series])
        logs = _logs(a.get(name, ()), b.get(name, ())) if before == after == _MEASURED else []
        if logs:
            common += 1
            single.setdefault(group, {})[name] = logs
            for part in around:
                tallies.setdefault(group, {}).setdefault(part, _Tally()).logs += logs
        elif {before, after} == {_MEASURED, _FAILED}:
            common += 1
            for part in around:
                tally = tallies.setdefault(group, {}).setdefault(part, _Tally())
                tally.lost += after == _FAILED
                tally.regained += before == _FAILED
        elif before == _MEASURED:
            only_first.append(name)
            unmeasured += after == _NOT_MEASURED
        elif after == _MEASURED:
            only_second.append(name)
    spreads = _spreads(single)
    rows = [row for group, found in tallies.items() for row in _rows(group, found, spreads.get(group), seed)]
    told = {row.component for row in rows if row.change in (Change.WORSE, Change.BETTER)}
    rows += (row for group, found in single.items() for row in _far_out(group, found, spreads[group], parts, told))
    return Comparison(
        rows=tuple(sorted(rows, key=_worst_first)),
        common=common,
        only_first=tuple(_in_words(only_first)),
        only_second=tuple(_in_words(only_second)),
        unmeasured=unmeasured,
        measured_first=measured_first,
        measured_second=measured_second,
    )


def parts_of(probe: Probe) -> Iterator[str]:
    """The components that get a row: hosts, and of what moves between two parts of one host these two."""
    yield from probe.hosts
    for end in ("rnic", "peer_rnic", "endpoint"):
        if end in probe.params:
            yield f"{probe.hosts[0]}/{probe.params[end]}"


_MEASURED, _FAILED, _NOT_MEASURED, _NOT_ASKED = "measured", "failed", "not measured", "not asked"
_CARRIED = (_MEASURED, _FAILED)

_Place = tuple[str, str, str, tuple[str, ...], str]


def _place(probe: Probe) -> _Place:
    return probe.phase, probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series"))


def _by_name(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> dict[_Name, list[Sample]]:
    """Every sample, its repetitions in order."""
    found: dict[_Name, list[Sample]] = {}
    for sample in samples(probes, results):
        found.setdefault((sample.phase, sample.key), []).append(sample)
    return found


def _state(repetitions: Sequence[Sample] | None) -> str:
    """What became of the repetitions of one probe: a fault outweighs a number, a number outweighs none."""
    if repetitions is None:
        return _NOT_ASKED
    if any(one.gave_up or (one.result is not None and one.result.outcome is Outcome.FAIL) for one in repetitions):
        return _FAILED
    return _MEASURED if any(one.value_gbps for one in repetitions) else _NOT_MEASURED


def _logs(before: Iterable[Sample], after: Iterable[Sample]) -> list[float]:
    """The logarithm of each repetition over itself in the other run, where both were measured."""
    pairs = zip(before, after, strict=False)
    return [log(new.value_gbps / old.value_gbps) for old, new in pairs if old.value_gbps and new.value_gbps]


def _spreads(single: Mapping[_Group, Mapping[_Name, Sequence[float]]]) -> dict[_Group, float | None]:
    """Of one ratio, by kind and size; where those are few, of the kind."""
    of_kind: dict[str, list[float]] = {}
    for (kind, _), found in single.items():
        of_kind.setdefault(kind, []).extend(value for logs in found.values() for value in logs)
    return {
        (kind, size): spread_of([value for logs in found.values() for value in logs]) or spread_of(of_kind[kind])
        for (kind, size), found in single.items()
    }


def _rows(group: _Group, found: Mapping[str, _Tally], spread: float | None, seed: int) -> Iterator[Compared]:
    """One row a component."""
    floor = floor_of(group[0])
    bounds = intervals({part: tally.logs for part, tally in found.items() if tally.logs}, spread, seed=seed)
    for part, tally in found.items():
        yield _row(part, group, tally, bounds.get(part), floor)


def _far_out(
    group: _Group,
    single: Mapping[_Name, Sequence[float]],
    spread: float | None,
    parts: Mapping[_Place, tuple[str, ...]],
    told: AbstractSet[str],
) -> Iterator[Compared]:
    """Single probes that changed while the components around them did not: a path has no row of its own."""
    kind, size_bytes = group
    floor = floor_of(kind)
    for (phase, key), logs in single.items() if spread is not None else ():
        around = parts[phase, key.kind, key.name, key.hosts, key.series]
        middle = median(logs)
        if abs(exp(middle) - 1) < floor or abs(middle) < FAR_OUT * (spread or 0.0) or not told.isdisjoint(around):
            continue
        change, note = Change.INCONCLUSIVE, "seen once: measure it again"
        if len(logs) > 1 and max(logs) < log(1 - floor):
            change, note = Change.WORSE, ""
        elif len(logs) > 1 and min(logs) > log(1 + floor):
            change, note = Change.BETTER, ""
        elif len(logs) > 1:
            note = "its repetitions disagree"
        yield Compared(
            f"{'+'.join(key.hosts)}/{key.series}", kind, size_bytes, change, len(logs), exp(middle), note=note
        )


def _row(part: str, group: _Group, tally: _Tally, bounds: tuple[float, float] | None, floor: float) -> Compared:
    kind, size_bytes = group
    n = len(tally.logs)
    if tally.lost > max(n, tally.regained):
        return Compared(part, kind, size_bytes, Change.WORSE, n, note=f"{tally.lost} probes carry nothing any more")
    if tally.regained > max(n, tally.lost):
        return Compared(part, kind, size_bytes, Change.BETTER, n, note=f"{tally.regained} probes carry bytes again")
    if not n:
        return Compared(part, kind, size_bytes, Change.INCONCLUSIVE, 0, note="lost some probes, regained as many")
    note = f"{tally.lost} probes carry nothing any more" if tally.lost else ""
    ratio = exp(median(tally.logs))
    if bounds is None:
        note = "too few to know the spread"
        return Compared(part, kind, size_bytes, Change.INCONCLUSIVE, n, ratio, note=note)
    return Compared(part, kind, size_bytes, change_of(bounds, floor=floor), n, ratio, *bounds, note)


def _worst_first(row: Compared) -> tuple[int, float, bool, str]:
    position = list(Change).index(row.change)
    lost = row.ratio if row.ratio is not None else (0.0 if row.change is Change.WORSE else 1.0)
    return position, lost, row.component != WHOLE, row.component


def _in_words(names: Sequence[_Name]) -> Iterator[str]:
    """Counted by phase and kind, hosts folded."""
    groups: dict[tuple[str, str], list[Key]] = {}
    for phase, key in names:
        groups.setdefault((phase, key.kind), []).append(key)
    for (phase, kind), keys in groups.items():
        yield f"{len(keys)} {kind} of {phase} on {fold(dict.fromkeys(host for key in keys for host in key.hosts))}"
