"""
Two runs of the same things: before and after a repair, a firmware, a setting.

Each probe is compared with itself. A probe that carried bytes before and that the fabric failed afterwards is a loss
without a number, and counts for its components when most of their probes are like that. What changed is named by what
the changed probes have in common (``changed.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

from fabric.judge.compare.changed import Both, Group, Ways
from fabric.judge.compare.rows import rows_of
from fabric.judge.normal.samples import Sample, SampleKey, name_of, samples
from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.probes import routes

_Name = tuple[str, SampleKey]  # phase and what was measured in it


@dataclass(slots=True)
class _Counts:
    """What is counted beside the rows."""

    measured_first: int = 0
    measured_second: int = 0
    unmeasured: list[_Name] = field(default_factory=list)
    only_first: list[_Name] = field(default_factory=list)
    only_second: list[_Name] = field(default_factory=list)


def compare_runs(
    first: tuple[Sequence[Probe], Mapping[str, ProbeResult]],
    second: tuple[Sequence[Probe], Mapping[str, ProbeResult]],
    *,
    topology: Topology,
) -> Comparison:
    """
    The planned probes and results of both runs, by component.

    *topology* says what lies between two hosts, as the second run knows it.
    """
    a, b = (_by_name(*run) for run in (first, second))
    probes = {_place(probe): probe for run in (first, second) for probe in run[0]}
    both: list[Both] = []
    counts = _Counts()
    for name in dict.fromkeys((*a, *b)):
        before, after = _state(a.get(name)), _state(b.get(name))
        counts.measured_first += before in _CARRIED
        counts.measured_second += after in _CARRIED
        phase, key = name
        group = key.kind, key.size_bytes
        seen = _seen(group, a.get(name, ()), b.get(name, ()), before, after, probes[_place_of(phase, key)])
        if seen is not None:
            both.append(seen)
        elif before == _MEASURED:
            (counts.unmeasured if after == _NOT_MEASURED else counts.only_first).append(name)
        elif after == _MEASURED:
            counts.only_second.append(name)
    return Comparison(
        rows=tuple(sorted(rows_of(both, Ways((first, second), topology)), key=_worst_first)),
        common=len(both),
        only_first=(*(f"{text}, {_NOT_AGAIN}" for text in _in_words(counts.unmeasured)), *_in_words(counts.only_first)),
        only_second=tuple(_in_words(counts.only_second)),
        unmeasured=len(counts.unmeasured),
        measured_first=counts.measured_first,
        measured_second=counts.measured_second,
    )


def parts_of(probe: Probe) -> Iterator[str]:
    """The components that get a row: hosts, and of what moves between two parts of one host these two."""
    yield from probe.hosts
    for end in ("rnic", "endpoint"):
        if end in probe.params:
            yield f"{probe.hosts[0]}/{probe.params[end]}"
    if "peer_rnic" in probe.params:
        yield f"{probe.hosts[-1]}/{probe.params['peer_rnic']}"


_MEASURED, _FAILED, _NOT_MEASURED, _NOT_ASKED = "measured", "failed", "not measured", "not asked"
_NOT_AGAIN = "asked of the second run, too, and not measured there"
_CARRIED = (_MEASURED, _FAILED)

_Place = tuple[str, str, str, tuple[str, ...], str]


def _path(probe: Probe) -> str:
    """Two RNICs of two hosts by their names, whichever of them sent; else hosts and series."""
    if "peer_rnic" in probe.params and len(probe.hosts) > 1:
        ends = (f"{probe.hosts[0]}/{probe.params['rnic']}", f"{probe.hosts[-1]}/{probe.params['peer_rnic']}")
        return "+".join(sorted(ends))
    return f"{'+'.join(probe.hosts)}/{probe.params.get('series')}"


def _place(probe: Probe) -> _Place:
    return probe.phase, probe.kind, name_of(probe), probe.hosts, str(probe.params.get("series"))


def _place_of(phase: str, key: SampleKey) -> _Place:
    return phase, key.kind, key.name, key.hosts, key.series


def _seen(
    group: Group, before: Sequence[Sample], after: Sequence[Sample], state_before: str, state_after: str, probe: Probe
) -> Both | None:
    """What both runs say of a probe; None where one of them says nothing."""
    logs = tuple(_logs(before, after)) if state_before == state_after == _MEASURED else ()
    lost, regained = state_after == _FAILED, state_before == _FAILED
    if not logs and {state_before, state_after} != {_MEASURED, _FAILED}:
        return None
    failed = [one.result.named for one in (*before, *after) if one.result is not None and one.result.named is not None]
    return Both(
        group,
        probe,
        _path(probe),
        tuple(parts_of(probe)),
        logs,
        lost=lost and not logs,
        regained=regained and not logs,
        named=failed[0] if failed and not logs else None,
    )


def _by_name(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> dict[_Name, list[Sample]]:
    """Every sample, its repetitions in order."""
    found: dict[_Name, list[Sample]] = {}
    for sample in samples((probe for probe in probes if probe.kind != routes.KIND), results):
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
