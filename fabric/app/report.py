"""Reports of runs that are over: made again and sent on, from run directories alone."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fabric.app import derived
from fabric.app.analyze import reopened
from fabric.errors import ConfigError, StoreError
from fabric.report.shown_run import ShownRun
from fabric.runs.events import history_of, read_events
from fabric.runs.manifest import FIGURES
from fabric.runs.plain_file import storing, write_durably
from fabric.runs.raw import raw_entries
from fabric.runs.run_lock import running
from fabric.runs.told_verdict import DECISION, acceptance_bytes, is_kept


def make_reports(run: ShownRun) -> Path:
    """Make every report of a run again; the path of report.html. Raises StoreError when it cannot be written."""
    directory = Path(run.judged.path)
    with storing(directory):
        for name, make in derived.MAKERS.items():
            derived.write_text(directory / name, make(run))
    return directory / "report.html"


def draw_figures(run: ShownRun, folder: Path) -> list[Path]:
    """
    Every figure of a run as PNG and SVG; raises StoreError when the folder cannot be written.

    ConfigError for one within the run's own where they would be no derived files: a certificate would miss them.
    """
    from fabric.report.run_figures import save_figures

    path = Path(run.judged.path).resolve()
    if folder.resolve() == path or (path in folder.resolve().parents and folder.resolve() != path / FIGURES):
        raise ConfigError.at(
            "--figures", f"within the run's own folder only {Path(run.judged.path) / FIGURES} is for figures"
        )
    with storing(folder):
        return save_figures(run, folder)


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
        if not is_kept(path, document):
            write_durably(path / DECISION, acceptance_bytes(document))
        if page.is_file() and page.stat().st_mtime_ns < (path / DECISION).stat().st_mtime_ns:
            derived.write_reports(reopened(path), path)


def push(run: ShownRun, url: str) -> None:
    """
    Send a run's metrics to a push gateway.

    Raises ConfigError for an address that is none of one, StoreError with the reason when it does not take them.
    """
    if not url or ("://" in url and not url.startswith(("http://", "https://"))):
        raise ConfigError.at("--push", f"expected http://HOST:PORT or https://HOST:PORT, got {url!r}")
    from fabric.report.exports import push as send

    try:
        send(run, url)
    except (OSError, ValueError) as exc:
        raise StoreError(f"{url}: cannot push: {getattr(exc, 'reason', None) or exc}") from exc


def raw_output(path: Path, probe_id: str) -> str:
    """What the commands of one probe printed; raises ConfigError naming the nearest probe that there is."""
    text = raw_entries(path, probe_id)
    if not text:
        known = history_of(read_events(path / "events.jsonl", "finished")).results
        near = get_close_matches(probe_id, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError.at(path, f"nothing was printed by a probe {probe_id!r}{hint}")
    return text
