"""
The run directories below a results folder, and which of them a person means.

What of it cannot be read is told: another account's runs are not no runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from fabric.errors import ConfigError, Problem
from fabric.runs.plain_file import is_there

FILE = "run.json"


@dataclass(slots=True)
class RunFolders:
    """*runs* have a run.json; *closed* is what cannot be looked into, where more may be, and why."""

    runs: list[Path] = field(default_factory=list)
    closed: dict[Path, str] = field(default_factory=dict)


def run_folders(results: Path) -> RunFolders:
    """
    Those of every scenario, sorted by path; ``latest`` is a link and not another run.

    Raises ConfigError where the folder itself is none, or cannot be read.
    """
    try:
        scenarios = _folders_in(results)
    except (FileNotFoundError, NotADirectoryError) as exc:
        text = "no folder of runs (expected <scenario>/<run>/run.json below it): give a run, or --results"
        raise ConfigError.at(results, text) from exc
    except OSError as exc:
        raise ConfigError.at(results, f"cannot read: {exc.strerror}") from exc
    found = RunFolders()
    for scenario in scenarios:
        _add_runs(scenario, found)
    return found


def is_run(path: Path) -> bool:
    """Whether a directory has a run.json; ConfigError where that cannot be seen."""
    try:
        return is_there(path / FILE)
    except OSError as exc:
        raise ConfigError.at(path, f"cannot read: {exc.strerror}") from exc


def _add_runs(scenario: Path, found: RunFolders) -> None:
    at = scenario
    try:
        for at in _folders_in(scenario):
            if not at.is_symlink() and _has_document(at, found):
                found.runs.append(at)
    except (FileNotFoundError, NotADirectoryError):  # it went away meanwhile
        return
    except OSError as exc:
        found.closed[at] = str(exc.strerror)


def _has_document(path: Path, found: RunFolders) -> bool:
    try:
        return is_there(path / FILE)
    except OSError as exc:
        found.closed[path] = str(exc.strerror)
        return False


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir())


def run_path(path: Path) -> Path:
    """
    The directory of the run itself: *path* is that, a link to it (``latest``), or a scenario's folder (its newest).

    A path that holds no run is returned as it is. ConfigError for one that cannot be read.
    """
    if not is_run(path):
        latest = path / "latest"
        path = latest if is_run(latest) else _newest(path)
    return path.parent / path.readlink() if path.is_symlink() else path


def _newest(path: Path) -> Path:
    found = RunFolders()
    _add_runs(path, found)
    if not found.runs and found.closed:
        raise ConfigError(Problem(str(shut), 0, f"cannot read: {why}") for shut, why in found.closed.items())
    return found.runs[-1] if found.runs else path
