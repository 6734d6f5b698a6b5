"""Reports of runs that are over: made again, sent on, put side by side; from run directories alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path

from fabric.app import reopened
from fabric.errors import StoreError
from fabric.report import derived
from fabric.report.shown_run import ShownRun
from fabric.report.side_by_side import SideBySide, side_by_side

COMPARISON = "compare.html"
"""Where several runs side by side are written, in the directory of the first."""


def make_reports(path: Path) -> Path:
    """Make every report of a run again; the path of report.html. Raises StoreError when it cannot be written."""
    _spare_the_collector()
    run = reopened(path)
    directory = Path(run.judged.path)
    try:
        for name, make in derived.MAKERS.items():
            derived.write_text(directory / name, make(run))
    except OSError as exc:
        raise StoreError(f"{directory}: cannot write: {exc.strerror or exc}") from exc
    return directory / "report.html"


def csv(path: Path) -> Iterator[str]:
    """Every measurement of a run as CSV, some lines at a time."""
    from fabric.report.csv_text import csv_lines

    _spare_the_collector()
    return csv_lines(reopened(path))


def push(path: Path, url: str) -> None:
    """Send a run's metrics to a push gateway; raises StoreError with the reason."""
    from fabric.report.openmetrics import push as send

    try:
        send(reopened(path), url)
    except (OSError, ValueError) as exc:
        raise StoreError(f"{url}: cannot push: {exc}") from exc


def compare(paths: Sequence[Path]) -> SideBySide:
    """Several runs, in the order they are named."""
    return side_by_side([reopened(path) for path in paths])


def write_comparison(found: SideBySide) -> Path:
    """compare.html in the directory of the first run; raises StoreError when it cannot be written."""
    from fabric.report.html.page import compared_page

    path = Path(_first(found).judged.path) / COMPARISON
    try:
        derived.write_text(path, compared_page(found))
    except OSError as exc:
        raise StoreError(f"{path}: cannot write: {exc.strerror or exc}") from exc
    return path


def _first(found: SideBySide) -> ShownRun:
    return found.runs[0]


def _spare_the_collector() -> None:
    """A large run is millions of objects that all live to the end: looking through them doubles the time (measured)."""
    gc.set_threshold(500_000, 50, 1000)
