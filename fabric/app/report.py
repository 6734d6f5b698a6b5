"""Reports of runs that are over: made again, sent on, put side by side; from run directories alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fabric.config import from_resolved
from fabric.errors import ConfigError, StoreError
from fabric.judge.compare.hosts import not_the_same
from fabric.model.judged_run import JudgedRun
from fabric.model.scenario import Scenario
from fabric.model.verdict import Verdict
from fabric.report import derived
from fabric.report.decision import FILE as DECISION
from fabric.report.decision import decision_bytes, same_decision
from fabric.report.shown_run import ShownRun
from fabric.report.side_by_side import SideBySide, side_by_side
from fabric.report.told_verdict import history_bytes
from fabric.runs.durable import write_durably
from fabric.runs.events import from_events, read_events
from fabric.runs.identity import read_identity
from fabric.runs.plain_file import storing
from fabric.runs.raw import raw_entries
from fabric.runs.run_document import go_on_command, read_run
from fabric.runs.run_lock import running

COMPARISON = "compare.html"
"""Where several runs side by side are written, in the directory of the first."""


def make_reports(path: Path) -> Path:
    """Make every report of a run again; the path of report.html. Raises StoreError when it cannot be written."""
    run = _reopened(path)
    directory = Path(run.judged.path)
    with storing(directory):
        for name, make in derived.MAKERS.items():
            derived.write_text(directory / name, make(run))
    return directory / "report.html"


def scenario_of(path: Path) -> Scenario:
    """What a run was asked, without reading what it measured. Raises as ``analyze``."""
    return from_resolved(read_run(path)["asked"])[0]


def keep_decision(path: Path, document: dict[str, Any]) -> None:
    """
    Keep the decision of a post-repair validation where it is another than before, or the first.

    A page that is older than the decision is made again: it begins with it. Writes nothing where it may not: an archive
    may be read-only, and what is shown needs no file; and nothing while the run goes on: the decision is not made yet.
    """
    if running(path) is not None:
        return
    page = path / "report.html"
    with suppress(OSError):
        if not same_decision(path, document):
            write_durably(path / DECISION, decision_bytes(document))
        if page.is_file() and page.stat().st_mtime_ns < (path / DECISION).stat().st_mtime_ns:
            derived.write_reports(_reopened(path), path)


def judged_run(path: Path) -> JudgedRun:
    """A run, judged again from what it measured. Raises as ``analyze``."""
    from fabric.app.analyze import analyze  # what judges takes a while to import

    with _without_collector():
        return analyze(path, baseline_path=None, rewrite=False)


def as_judged(
    path: Path,
    document: Mapping[str, Any],
    scenario: Scenario,
    verdict: Verdict,
    *,
    elapsed_s: float,
    judged_by: tuple[str, ...],
    complete: bool = True,
) -> JudgedRun:
    """A run with its verdict; one that is not *complete* goes on while somebody works on it."""
    return JudgedRun(
        scenario=scenario,
        verdict=verdict,
        path=str(path),
        run_id=document.get("run_id", path.name),
        elapsed_s=elapsed_s,
        backend=document["backend"],
        judged_by=judged_by,
        again=f"fabric report {path}",
        complete=complete,
        goes_on=not complete and running(path) is not None,
        history_bytes=history_bytes(path),
        go_on="" if complete else go_on_command(path, document),
    )


def csv(path: Path) -> Iterator[str]:
    """Every measurement of a run as CSV, some lines at a time."""
    from fabric.report.exports import csv_lines

    return csv_lines(_reopened(path))


def push(path: Path, url: str) -> None:
    """
    Send a run's metrics to a push gateway.

    Raises ConfigError for an address that is none of one, StoreError with the reason when it does not take them.
    """
    if not url or ("://" in url and not url.startswith(("http://", "https://"))):
        raise ConfigError.at("--push", f"expected http://HOST:PORT or https://HOST:PORT, got {url!r}")
    from fabric.report.exports import push as send

    try:
        send(_reopened(path), url)
    except (OSError, ValueError) as exc:
        raise StoreError(f"{url}: cannot push: {getattr(exc, 'reason', None) or exc}") from exc


def compare(paths: Sequence[Path]) -> SideBySide:
    """Several runs, in the order they are named; the notes say where one name means two hosts, or another part."""
    found = side_by_side([_reopened(path) for path in paths])
    return replace(found, notes=(*found.notes, *_not_the_same(found.runs)))


def _not_the_same(runs: Sequence[ShownRun]) -> Iterator[str]:
    """The first run and each other one."""
    first, *others = runs
    before = read_identity(Path(first.judged.path))
    for run in others:
        names = set(run.judged.scenario.hosts)
        notes = not_the_same(
            [name for name in first.judged.scenario.hosts if name in names],
            (first.inventory.topology, run.inventory.topology),
            (before, read_identity(Path(run.judged.path))),
            files=(first.inventory.source, run.inventory.source),
        )
        yield from (f"{run.judged.run_id}: {note}" for note in notes)


def write_comparison(found: SideBySide) -> Path:
    """compare.html in the directory of the first run; raises StoreError when it cannot be written."""
    from fabric.report.html.page import compared_page

    path = Path(_first(found).judged.path) / COMPARISON
    with storing(path):
        derived.write_text(path, compared_page(found))
    return path


def _first(found: SideBySide) -> ShownRun:
    return found.runs[0]


def _reopened(path: Path) -> ShownRun:
    from fabric.app.analyze import reopened  # what judges takes a while to import

    with _without_collector():
        return reopened(path)


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


def raw_output(path: Path, probe_id: str) -> str:
    """What the commands of one probe printed; raises ConfigError naming the nearest probe that there is."""
    text = raw_entries(path, probe_id)
    if not text:
        known = from_events(read_events(path / "events.jsonl"))
        near = get_close_matches(probe_id, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError.at(path, f"nothing was printed by a probe {probe_id!r}{hint}")
    return text
