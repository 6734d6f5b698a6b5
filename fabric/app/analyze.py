"""Judges a run from what is written down, and makes what is derived from that: verdict.json, tables, reports."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fabric.app.derived import write_reports
from fabric.app.measured import tables_of, with_particulars
from fabric.config import load_baseline
from fabric.engine.deadlines import reached
from fabric.errors import StoreError
from fabric.judge.ports.verdict import SeenCounters, wanted_for
from fabric.judge.verdict.conclude import conclude, read_elsewhere
from fabric.judge.verdict.probes import Judge
from fabric.model.verdict import JudgedRun, Verdict
from fabric.report.output import visible, warn
from fabric.report.shown_run import Frames, ShownRun
from fabric.report.verdict_json import verdict_bytes
from fabric.runs.durable import write_durably
from fabric.runs.events import EVENTS, read_events
from fabric.runs.journal import JOURNAL
from fabric.runs.links import read_links
from fabric.runs.open_changes import change_results, settled
from fabric.runs.past_run import PastRun, read_past_run, refuse_own_record
from fabric.runs.plain_file import storing
from fabric.runs.progress import not_begun
from fabric.runs.run_document import go_on_command
from fabric.runs.run_lock import running
from fabric.runs.samples import read_samples
from fabric.runs.tables import write_table
from fabric.runs.told_verdict import FILE as VERDICT
from fabric.runs.told_verdict import history_bytes, is_told


def analyze(path: Path, *, baseline_path: Path | None = None, rewrite: bool = False) -> JudgedRun:
    """
    Judge a run again from its directory alone, with today's code and, if given, another baseline.

    With *rewrite* what is derived is made again; without, only where there is no verdict.json, or one older than what
    was measured. While the run goes on that would be out of date with its next probe, and nothing is written.
    """
    shown = reopened(path, baseline_path=baseline_path)
    if rewrite:
        write_derived(shown, reports=True)
    elif not shown.judged.goes_on and not is_told(Path(shown.judged.path)):
        with suppress(StoreError):  # an archive may be read-only; what is shown needs no file
            write_derived(shown, reports=True)
    return shown.judged


@contextmanager
def _without_collector() -> Iterator[None]:
    """A large run is millions of objects that all live to the end: looking through them doubles the time (measured)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_without_collector()
def reopened(path: Path, *, baseline_path: Path | None = None) -> ShownRun:
    """A run read back from its directory alone and judged again; writes nothing."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    at_work, read_bytes = running(path) is not None, history_bytes(path)  # before it is read: it may grow meanwhile
    past = read_past_run(path)
    again = f"fabric report {path}"
    if baseline_path is not None:
        other = load_baseline(baseline_path)
        refuse_own_record(past.name, other)
        past = replace(past, baselines=dict.fromkeys(past.baselines, other))
        again = f"fabric analyze {path} --baseline {baseline_path}"
    past = replace(past, plan=reached(past.plan, not_begun(past.history.others)))
    verdict, complete, first = concluded(past), past.ended, past.history.first
    if not complete:
        reason = (
            "the run goes on: what it has not reached yet is"
            if at_work
            else "the run was interrupted: what it did not reach is"
        )
        reason = f"{reason} not judged"
        verdict = replace(verdict, reasons=(reason, *verdict.reasons))
    elapsed_s = 0.0 if first is None else past.history.at_s - first["at_s"]
    shown = shown_run(past, verdict, elapsed_s, complete=complete)
    judged = replace(shown.judged, again=again, goes_on=at_work and not complete, history_bytes=read_bytes)
    return replace(shown, judged=judged)


def shown_run(past: PastRun, verdict: Verdict, elapsed_s: float, *, complete: bool = True) -> ShownRun:
    """A run with its verdict, as every report shows it."""
    path, document = past.path, past.document
    baselines = {id(one): one for one in past.baselines.values()}.values()
    judged = JudgedRun(
        scenario=past.scenario,
        verdict=verdict,
        path=str(path),
        run_id=document.get("run_id", path.name),
        elapsed_s=elapsed_s,
        backend=past.backend,
        judged_by=tuple(f"{baseline.name} ({baseline.source})" for baseline in baselines),
        again=f"fabric report {path}",
        complete=complete,
        history_bytes=history_bytes(path),
        go_on="" if complete else go_on_command(path, document),
    )
    shown = ShownRun(judged, past.inventory, past.probes, past.results, document, complete, _frames_of)
    verdict = replace(verdict, suspects=with_particulars(shown))
    return replace(shown, judged=replace(judged, verdict=verdict))


def _frames_of(run: ShownRun) -> Frames:
    from fabric.app.frames import frames_of

    return frames_of(run)


def concluded(past: PastRun) -> Verdict:
    """Judge what was measured, and what was altered meanwhile as the run's history tells it."""
    scenario, topology, events = past.scenario, past.inventory.topology, past.path / EVENTS
    probes, planned = past.probes, past.changes
    found = (
        settled(change_results(read_events(events, "change"), planned), past.path / JOURNAL, planned) if planned else ()
    )
    by_id = read_elsewhere(probes, past.results)
    growth = scenario.judge.zero_growth
    return conclude(
        probes,
        by_id,
        topology=topology,
        judge=Judge.as_asked(scenario.judge, past.baselines, topology),
        notes=past.notes,
        phases=scenario.phases,
        expect=scenario.expect,
        changes=found,
        seen=SeenCounters(
            read_samples(past.path, wanted_for(growth)),
            scenario.hosts,
            growth,
            read_links(past.path),
            watches=any(phase.fills is not None for phase in scenario.phases),
        ),
    )


@_without_collector()
def write_derived(run: ShownRun, *, reports: bool) -> None:
    """Write everything that can be deleted and made again; raises StoreError when the disk says no."""
    path = Path(run.judged.path)
    with storing(path):
        _write_tables(run, path)
        write_durably(path / VERDICT, verdict_bytes(run.judged))
        if reports:
            write_reports(run, path)


def _write_tables(run: ShownRun, path: Path) -> None:
    """A defect in one is said on standard error, as of a report: a table must not cost a verdict."""
    try:
        for name, groups in tables_of(run).items():
            write_table(path, name, groups)
    except (OSError, MemoryError, StoreError):
        raise
    except Exception as exc:  # noqa: BLE001 - see above
        warn(visible(f"tables could not be made: {type(exc).__name__}: {exc} (a defect of fabric, please report it)"))
