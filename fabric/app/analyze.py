"""Judge a run from its run directory, and write what is derived from it: verdict.json, tables, reports.

report.html, junit.xml, metrics.prom, summary.md and tickets/ need nothing but the run directory: they can be made again
at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from fabric.app.measured import tables_of, with_particulars
from fabric.config.baselines import load_baseline
from fabric.engine.deadlines import reached
from fabric.errors import ConfigError, StoreError
from fabric.judge.ports.health import ports_of_run
from fabric.judge.ports.verdict import SeenCounters, wanted_for
from fabric.judge.repair.accept import accept, narrowed_to, together
from fabric.judge.repair.identity import repaired
from fabric.judge.repair.needs import Measured
from fabric.judge.verdict.conclude import conclude, read_elsewhere
from fabric.judge.verdict.probes import Judge
from fabric.model.fields.wording import nearest
from fabric.model.outcome import Reason
from fabric.model.repair import Acceptance
from fabric.model.verdict import JudgedRun, Verdict
from fabric.probes.again import AgainSpec, because_of
from fabric.report.decision import acceptance_document
from fabric.report.output import visible, warn
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import verdict_bytes
from fabric.runs.events import EVENTS, history_of, not_begun, read_events
from fabric.runs.frames import Run
from fabric.runs.journal import JOURNAL, settled
from fabric.runs.manifest import FIGURES, TICKETS, tickets_of
from fabric.runs.plain_file import make_asked_folder, make_folder, read_plain, storing, write_durably
from fabric.runs.run_directory import raw_entries, run_path
from fabric.runs.run_document import PastRun, go_on_command, read_identity, read_past_run, read_run, refuse_own_record
from fabric.runs.run_lock import running
from fabric.runs.samples import read_links, read_samples
from fabric.runs.stored_verdict import DECISION, MOST_VERDICT_BYTES, VERDICT, decision_in, history_bytes, is_judged
from fabric.runs.tables import have_tables, schema_of, write_table

if TYPE_CHECKING:
    import pyarrow as pa


def report_makers() -> Mapping[str, Callable[[ShownRun], str]]:
    """
    Return for each report its file name and the function that makes it from a run.

    Their libraries are imported only now.
    """
    from fabric.report.exports import junit_xml, metrics_text
    from fabric.report.page import page
    from fabric.report.verdict_text import summary

    return {"report.html": page, "junit.xml": junit_xml, "metrics.prom": metrics_text, "summary.md": summary}


def _write_reports(run: ShownRun, directory: Path) -> None:
    """Write every report, each whole or not at all; raise OSError when the disk refuses."""
    for name, make in report_makers().items():
        with _reporting_defects(name, but=OSError):
            write_durably(directory / name, make(run).encode())
    write_tickets(run, directory)


def write_tickets(run: ShownRun, directory: Path) -> None:
    """Write a ticket for each suspect and remove tickets of an older verdict; raise OSError when the disk refuses."""
    from fabric.report.verdict_text import tickets

    found: Mapping[str, str] = {}
    with _reporting_defects(TICKETS):
        found = tickets(run)
    if found:
        make_folder(directory / TICKETS)
    for name, text in found.items():
        write_durably(directory / TICKETS / name, text.encode())
    for file in tickets_of(directory):
        if file.name not in found:
            file.unlink(missing_ok=True)


@contextmanager
def _reporting_defects(what: str, *, but: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """
    Warn of an exception on standard error and go on without *what*: a picture must not cost a verdict.

    Exceptions of the types in *but* are raised.
    """
    try:
        yield
    except but:
        raise
    except Exception as exc:  # noqa: BLE001 - the verdict must be told
        warn(visible(f"{what} could not be made: {type(exc).__name__}: {exc} (a defect of fabric, please report it)"))


def analyze(path: Path, *, baseline_path: Path | None = None, rewrite: bool = False) -> ShownRun:
    """
    Judge a run again from its directory alone, with today's code and, if given, another baseline.

    With *rewrite* all derived files are made again. Without it, only if verdict.json is missing or older than what was
    measured, or if the decision of a post-repair validation is missing. While the run is still going on, nothing is
    written then: the next probe would make it out of date.
    """
    run = reopened(path, baseline_path=baseline_path)
    if rewrite:
        write_derived(run, reports=True)
    elif running(run.past.path) is None and not _is_kept(run):
        with suppress(StoreError):  # an archive may be read-only; what is shown needs no file
            write_derived(run, reports=True)
    return run


def _is_kept(run: ShownRun) -> bool:
    """Return whether the stored verdict (and decision, where one is due) exists and covers all that was measured."""
    path = run.past.path
    return is_judged(path) and (because_of(run.past.scenario) is None or decision_in(path) is not None)


def reopened(path: Path, *, baseline_path: Path | None = None) -> ShownRun:
    """Read a run back from its directory alone and judge it again; write nothing."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    at_work, read_bytes = running(path) is not None, history_bytes(path)  # read first: the history may grow meanwhile
    past = to_judge(path, baseline_path)
    again = "" if baseline_path is None else f"fabric analyze {path} --baseline {baseline_path}"
    verdict, complete = concluded(past), past.ended
    if not complete:
        left = "goes on: what it has not reached yet is" if at_work else "was interrupted: what it did not reach is"
        verdict = replace(verdict, reasons=(Reason(f"the run {left} not judged"), *verdict.reasons))
    goes_on = at_work and not complete
    return shown_run(past, verdict, complete=complete, goes_on=goes_on, again=again, read_bytes=read_bytes)


def to_judge(path: Path, baseline_path: Path | None = None) -> PastRun:
    """Read a run back, with another baseline if one is given, and drop rounds that were planned but never asked for."""
    past = read_past_run(path)
    if baseline_path is not None:
        other = load_baseline(baseline_path)
        refuse_own_record(past.name, other)
        past = replace(past, baselines=dict.fromkeys(past.baselines, other))
    return replace(past, plan=reached(past.plan, not_begun(past.history.others)))


def shown_run(
    past: PastRun,
    verdict: Verdict,
    *,
    complete: bool = True,
    goes_on: bool = False,
    again: str = "",
    read_bytes: int | None = None,
    parts: Sequence[Path] = (),
) -> ShownRun:
    """
    Return a run with its verdict, as every report shows it.

    *read_bytes*: how much of its history was read; None: all of it. *parts*: the directories that it was read from, if
    there are several.
    """
    path, document, first = past.path, past.document, past.history.first
    baselines = {id(one): one for one in past.baselines.values()}.values()
    judged = JudgedRun(
        scenario=past.scenario,
        verdict=verdict,
        path=str(path),
        run_id=document.get("run_id", path.name),
        elapsed_s=0.0 if first is None else past.history.at_s - first["at_s"],
        backend=past.backend,
        judged_by=tuple(f"{baseline.name} ({baseline.source})" for baseline in baselines),
        again=again or f"fabric report {path}",
        complete=complete,
        goes_on=goes_on,
        history_bytes=history_bytes(path) if read_bytes is None else read_bytes,
        go_on="" if complete else go_on_command(path, document),
    )
    shown = ShownRun(past, judged, frames_of)
    verdict = replace(verdict, suspects=with_particulars(shown, parts or (path,)))
    return replace(shown, judged=replace(judged, verdict=verdict))


def seen_of(past: PastRun) -> SeenCounters:
    """Return the counters of ports and cables that were sampled beside the probes of a run."""
    scenario = past.scenario
    return SeenCounters(
        read_samples(past.path, wanted_for(scenario.judge.growth)),
        scenario.hosts,
        scenario.judge.growth,
        read_links(past.path),
        watches=any(phase.fills is not None for phase in scenario.phases),
    )


def concluded(past: PastRun, seen: SeenCounters | None = None) -> Verdict:
    """Judge what was measured and *seen*, with the changes that were in force by the run's history."""
    scenario, topology, probes = past.scenario, past.inventory.topology, past.probes
    by_id = read_elsewhere(probes, past.results)
    return conclude(
        probes,
        by_id,
        topology=topology,
        judge=Judge(past.baselines, scenario.judge, topology),
        notes=past.notes,
        phases=scenario.phases,
        expect=scenario.expect,
        changes=settled(past.path / JOURNAL, past.history.others, past.changes),
        seen=seen or seen_of(past),
    )


def decided(run: ShownRun) -> Acceptance | None:
    """Return the decision of a post-repair validation; None for any other run."""
    scenario, verdict = run.judged.scenario, run.judged.verdict
    because = because_of(scenario)
    if because is None:
        return None
    past, topology = run.past, run.past.inventory.topology
    again = {one.name for one in scenario.phases if any(isinstance(spec, AgainSpec) for spec in one.probes)}
    samples = read_samples(past.path, wanted_for(None))
    measured = Measured(
        past.probes,
        past.results,
        verdict,
        topology,
        samples,
        run.judged.complete,
        frozenset(again),
        frozenset(because.hosts),
        frozenset(one.probe_id for one in past.history.added),
    )
    now = read_identity(past.path)
    before = {host.host: host for host in because.identity} or None
    found = []
    for one in (narrowed_to(because, name, topology) for name in because.names):
        ports = ports_of_run(samples, topology, one.hosts, verdict.changes)
        found.append(accept(one, measured, ports, repaired(before, now, one.hosts, one.suspects)))
    return together(found)


def write_derived(run: ShownRun, *, reports: bool) -> None:
    """Write everything that can be deleted and made again; raise StoreError when the disk refuses."""
    path = run.past.path
    with storing(path):
        with _reporting_defects("tables", but=(OSError, MemoryError, StoreError)):
            for name, groups in tables_of(run).items():
                write_table(path, name, groups)
        write_durably(path / VERDICT, verdict_bytes(run.judged))
        write_decision(run, path)  # before the reports, which begin with it
        if reports:
            _write_reports(run, path)


def write_decision(run: ShownRun, path: Path) -> None:
    """Write the decision of a post-repair validation to acceptance.json; raise OSError when the disk refuses."""
    decision = decided(run)
    if decision is not None:
        text = orjson.dumps(acceptance_document(decision), option=orjson.OPT_INDENT_2)
        write_durably(path / DECISION, text + b"\n")


def make_reports(run: ShownRun) -> Path:
    """Make every report of a run again and return the path of report.html; raise StoreError if it cannot be written."""
    directory = run.past.path
    with storing(directory):
        if running(directory) is None:
            write_decision(run, directory)
        _write_reports(run, directory)
    return directory / "report.html"


def draw_figures(run: ShownRun, folder: Path) -> list[Path]:
    """
    Write every figure of a run as PNG and SVG, and return the files.

    Raises StoreError when the folder cannot be written, and ConfigError for a file, or a folder within the run's own
    other than its figures/: files there are not known as derived, so a certificate would miss them.
    """
    from fabric.report import figures
    from fabric.report.page import pictures

    path, own = folder.resolve(), run.past.path.resolve()
    if own in (path, *path.parents) and path != own / FIGURES:
        text = f"within the run's own folder only {run.past.path / FIGURES} is for figures"
        raise ConfigError.at("--figures", text)
    with storing(folder):
        make_asked_folder(folder)
        return [file for one in pictures(run) for file in figures.save(one.figure, folder, one.name)]


def raw_output(path: Path, probe_id: str) -> str:
    """
    Return what the commands of one probe printed; raise ConfigError with the nearest known probe if there is nothing.
    """
    text = raw_entries(path, probe_id)
    if not text:
        known = history_of(read_events(path / EVENTS, "finished")).results
        raise ConfigError.at(path, f"nothing was printed by a probe {probe_id!r}{nearest(probe_id, known)}")
    return text


def frames_of(run: ShownRun) -> Run:
    """
    Return the frames of a judged run.

    Its table files are read if they belong to this very verdict, otherwise made anew.
    """
    path = run.past.path
    with suppress(OSError):
        if read_plain(path / VERDICT, MOST_VERDICT_BYTES) == verdict_bytes(run.judged) and have_tables(path):
            return Run(path)
    groups = tables_of(run)
    return Run(path, lambda name: whole_table(name, groups[name]))


def whole_table(name: str, groups: Iterable[pa.Table]) -> pa.Table:
    """Concatenate all groups of rows of a table."""
    import pyarrow as pa

    return pa.concat_tables([schema_of(name).empty_table(), *groups]).unify_dictionaries()


def load(run_directory: Path | str) -> Run:
    """
    Return the run in a directory, or the newest run in a scenario's folder.

    Raises ConfigError where there is none, StoreError for a history that is not as it was written. A run that still
    goes on is read as far as it has come. Tables that are missing, or that another version wrote, are made again, and
    stored if the directory can be written.
    """
    path = run_path(Path(run_directory))
    read_run(path)
    return Run(path, None if is_judged(path) and have_tables(path) else made_again(path).__getitem__)


def made_again(path: Path) -> dict[str, pa.Table]:
    """
    Make the tables of a run from its history, judged with today's code; store them if the directory can be written.
    """
    found = {name: whole_table(name, groups) for name, groups in tables_of(reopened(path)).items()}
    if is_judged(path):
        with suppress(StoreError), storing(path):  # an archive may be read-only
            for name, table in found.items():
                write_table(path, name, [table])
    return found
