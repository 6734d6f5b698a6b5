"""What runs that are over know of hosts: what accused them, and what the same probes measured in better times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fabric.analysis.acceptance import Same, same
from fabric.analysis.counters import bandwidths
from fabric.analysis.series import representative
from fabric.errors import FabricError
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.repair import Evidence
from fabric.report.shown_run import Row, ShownRun
from fabric.store.past_run import PastRun, read_past_run
from fabric.store.run_folders import run_folders

ACCUSING = (Outcome.FAIL, Outcome.ERROR, Outcome.MARGINAL)
"""What is measured again; INCONCLUSIVE and SKIPPED probes accuse nobody."""

NAMING = (Outcome.FAIL, Outcome.ERROR)
"""Suspects of these outcomes name their hosts: who hung or did not answer is repaired, too."""

MOST_HOSTS = 2
"""Probes over more hosts are not repeated: they would take the hosts of a whole job (a choice)."""

MOST_PAST_RUNS = 10
"""The newest earlier runs that are read (a choice: about a second each)."""

Found = tuple[list[Evidence], int, list[str]]


def suspected(run: ShownRun) -> frozenset[str]:
    """The hosts that a run names: as bad, or as those that could not be measured."""
    return frozenset(host for one in run.judged.verdict.suspects for host in one.hosts if one.outcome in NAMING)


def evidence_of(failed: ShownRun, hosts: Sequence[str]) -> Found:
    """What accused *hosts* there, each once; how many earlier runs know of it; what could not be taken, in words."""
    accused, bad = set(hosts), suspected(failed)
    kept: dict[Same, Row] = {}
    large: set[str] = set()
    partners: set[str] = set()
    for row in failed.rows:
        others = set(row.probe.hosts) - accused
        if row.verdict.outcome not in ACCUSING or not row.verdict.ran or others == set(row.probe.hosts):
            continue
        if len(row.probe.hosts) > MOST_HOSTS:
            large.add(row.probe.kind)
        elif others & bad:
            partners |= others & bad
        elif same(row.probe) not in kept or row.verdict.outcome.rank > kept[same(row.probe)].verdict.outcome.rank:
            kept[same(row.probe)] = row
    past, runs = _past(failed, set(kept))
    evidence = [_evidence(row, past.get(what, ())) for what, row in kept.items()]
    notes = [f"not repeated: {', '.join(sorted(large))} over more than {MOST_HOSTS} hosts"] if large else []
    notes += [f"not repeated: probes with {fold(sorted(partners))}, which was found bad itself"] if partners else []
    return evidence, runs, notes


def _evidence(row: Row, past_gbps: Sequence[float]) -> Evidence:
    verdict = row.verdict
    probe = replace(row.probe, params=dict(row.probe.params))
    limit = verdict.limit_gbps
    good = tuple(value for value in past_gbps if limit is None or value >= limit)
    return Evidence(probe, verdict.outcome, verdict.reason, verdict.value_gbps, limit, good)


def _past(failed: ShownRun, wanted: set[Same]) -> tuple[Mapping[Same, Sequence[float]], int]:
    """What earlier runs beside this one measured for the same probes, and how many of them measured any."""
    found: dict[Same, list[float]] = {}
    runs = 0
    for run in _earlier(failed):
        probes = [probe for probe in run.probes if same(probe) in wanted]
        measured = 0
        for probe in probes:
            result = run.results.get(probe.probe_id)
            if result is not None and result.outcome is None and bandwidths(result):
                found.setdefault(same(probe), []).append(representative(result)[0])
                measured += 1
        runs += measured > 0
    return found, runs


def _begun(path: Path) -> tuple[str, int]:
    """When a run began: the second is in its name, what is finer only in its file."""
    try:
        return path.name[: len("20260101-000000")], (path / "run.json").lstat().st_mtime_ns
    except OSError:
        return path.name[: len("20260101-000000")], 0


def _earlier(failed: ShownRun) -> Iterator[PastRun]:
    """The newest runs before it in the same results, through the same backend; what cannot be read is no past."""
    here = Path(failed.judged.path)
    there = {one: _begun(one) for one in run_folders(here.parent.parent).runs}
    before = sorted((one for one, begun in there.items() if begun < _begun(here)), key=there.__getitem__, reverse=True)
    for path in before[:MOST_PAST_RUNS]:
        try:
            run = read_past_run(path)
        except FabricError:
            continue
        if run.backend == failed.judged.backend and not run.changes:
            yield run
