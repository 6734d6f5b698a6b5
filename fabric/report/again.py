"""Whether another run measured again what accused a component: only then is a suspect that is gone mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Suspect
from fabric.report.shown_run import Row, ShownRun

_Shape = tuple[str, ...]
"""What a measurement is about: its kind, then host and part at an end of it, or both ends."""


def tried(suspects: Sequence[Sequence[Suspect | None]], runs: Sequence[ShownRun]) -> list[tuple[bool, ...]]:
    """
    For each component, given what every run says of it: in which runs it could have shown.

    It could where it is suspected, and where something was measured that is like one of the probes that accused it: the
    same kind from the same host and part. With whom does not matter for a part of a host or a leaf; what a cable
    between switches or a spine carries depends on both ends, so there the pair must be the same. A suspect
    without such probes could have shown where all its hosts took part.
    """
    accusing = [_accusing(found, runs) for found in suspects]
    wanted = {shape for shapes in accusing for shape in shapes}
    measured = [_measured(run, wanted) for run in runs]
    return [
        tuple(
            one is not None or (not shapes.isdisjoint(measured[number]) if shapes else _took_part(found, run))
            for number, (one, run) in enumerate(zip(found, runs, strict=True))
        )
        for found, shapes in zip(suspects, accusing, strict=True)
    ]


def _accusing(found: Sequence[Suspect | None], runs: Sequence[ShownRun]) -> set[_Shape]:
    shapes: set[_Shape] = set()
    for suspect, run in zip(found, runs, strict=True):
        for probe_id in suspect.probes if suspect is not None else ():
            row = run.row_of.get(probe_id)
            if row is not None and suspect is not None:
                shapes.update(_about(row.probe, suspect))
    return shapes


def _about(probe: Probe, suspect: Suspect) -> Iterator[_Shape]:
    """The ends of a probe that its suspect is at; both at once where it is at neither, or between two switches."""
    ends = [shape for host, shape in _ends(probe) if host in suspect.hosts]
    if suspect.kind == "leaf":
        ends = [shape for _, shape in _ends(probe)]
    yield from ends or [_both(probe)]


def _ends(probe: Probe) -> Iterator[tuple[str, _Shape]]:
    """Each host of a probe, with the kind and what of that host is measured."""
    params = probe.params
    parts = [str(params[key]) for key in ("rnic", "endpoint", "peer_rnic") if key in params]
    if len(probe.hosts) == 1:
        yield probe.hosts[0], (probe.kind, probe.hosts[0], *(parts or [str(params.get("series", ""))]))
        return
    for number, host in enumerate(probe.hosts):
        part = params.get("peer_rnic" if number else "rnic", "")
        yield host, (probe.kind, host, str(part))


def _both(probe: Probe) -> _Shape:
    return (probe.kind, *(word for _, shape in _ends(probe) for word in shape[1:]))


def _measured(run: ShownRun, wanted: AbstractSet[_Shape]) -> set[_Shape]:
    """Those of the *wanted* shapes that a run measured."""
    kinds = {shape[0] for shape in wanted}
    found: set[_Shape] = set()
    for row in run.rows if kinds else ():
        if row.probe.kind in kinds and _is_measured(row):
            found.add(_both(row.probe))
            found.update(shape for _, shape in _ends(row.probe))
    return found & wanted


def _is_measured(row: Row) -> bool:
    return row.verdict.value_gbps is not None or row.verdict.outcome is Outcome.FAIL


def _took_part(found: Sequence[Suspect | None], run: ShownRun) -> bool:
    hosts = {host for one in found if one is not None for host in one.hosts}
    return hosts.issubset(run.judged.scenario.hosts)
