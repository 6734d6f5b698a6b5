"""
Two runs of the same things: before and after a repair, a firmware, a setting.

Each probe is compared with itself. A probe that carried bytes before and that the fabric failed afterwards is a loss
without a number, and counts for its components when most of their probes are like that. What changed is named by what
the changed probes have in common (``changed.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log

from fabric.judge.compare.changed import Both, Ways
from fabric.judge.compare.rows import rows_of
from fabric.judge.normal.keys import rnics_of
from fabric.judge.normal.samples import Sample, SampleKey, samples
from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.probes import routes

_Name = tuple[str, SampleKey]  # phase and what was measured in it
_Named = dict[_Name, tuple[Probe, list[Sample]]]
"""A probe and its repetitions in order."""

_MEASURED, _FAILED, _NOT_MEASURED, _NOT_ASKED = "measured", "failed", "not measured", "not asked"
_CARRIED = (_MEASURED, _FAILED)


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


def _by_name(probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> _Named:
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
        tuple(_parts_of(probe)),
        logs,
        lost=of_both[1] == _FAILED,
        regained=of_both[0] == _FAILED,
        named=failed[0] if failed and not logs else None,
    )


def _parts_of(probe: Probe) -> Iterator[str]:
    """The components that get a row: hosts, and of what moves between two parts of one host these two."""
    yield from (*probe.hosts, *rnics_of(probe))
    if "endpoint" in probe.params:
        yield f"{probe.hosts[0]}/{probe.params['endpoint']}"


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
