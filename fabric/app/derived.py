"""The reports beside a run: report.html, junit.xml, metrics.prom, summary.md, tickets/; all derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TypeVar

from fabric.report.output import visible, warn
from fabric.report.shown_run import ShownRun
from fabric.runs.manifest import TICKETS, tickets_of
from fabric.runs.plain_file import make_folder, writing

_T = TypeVar("_T")


def _maker(where: str) -> Callable[[ShownRun], str]:
    """A function of the reports by its name; the libraries that its module takes are imported when it is called."""
    return lambda run: resolve_name(f"fabric.report.{where}")(run)


MAKERS: Mapping[str, Callable[[ShownRun], str]] = {
    "report.html": _maker("page:page"),
    "junit.xml": _maker("junit:junit_xml"),
    "metrics.prom": _maker("exports:metrics_text"),
    "summary.md": _maker("markdown:summary"),
}
"""File name and what makes it, from the run alone."""


def write_reports(run: ShownRun, directory: Path) -> None:
    """
    Write all of them, each whole or not at all; raises OSError when the disk says no.

    A defect in one of them is said on standard error and leaves out that file: a picture must not cost a verdict.
    """
    for name, make in MAKERS.items():
        text = _made(name, make, run)
        if text is not None:
            write_text(directory / name, text)
    write_tickets(run, directory)


def write_tickets(run: ShownRun, directory: Path) -> None:
    """A ticket for each suspect; those of an older verdict go. Raises OSError when the disk says no."""
    from fabric.report.markdown import tickets

    found = _made(TICKETS, tickets, run) or {}
    old = tickets_of(directory)
    if found:
        make_folder(directory / TICKETS)
    for name, text in found.items():
        write_text(directory / TICKETS / name, text)
    for file in old:
        if file.name not in found:
            file.unlink(missing_ok=True)


def _made(name: str, make: Callable[[ShownRun], _T], run: ShownRun) -> _T | None:
    """None where a defect was said of it."""
    try:
        return make(run)
    except Exception as exc:  # noqa: BLE001 - the verdict is written, and must be told
        warn(visible(f"{name} could not be made: {type(exc).__name__}: {exc} (a defect of fabric, please report it)"))
        return None


def write_text(path: Path, text: str) -> None:
    """
    Replace a derived file whole; not worth an fsync, because it can be made again.

    Raises OSError (a full disk); nothing half-written is left behind.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with writing(temporary) as file:
            file.write(text.encode())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
