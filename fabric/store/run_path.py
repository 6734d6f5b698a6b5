"""Which run a person means: its directory, a link to it (``latest``), or a scenario's folder for its newest."""

from __future__ import annotations

from pathlib import Path

from fabric.errors import ConfigError, Problem
from fabric.store.run_folders import is_run, runs_of


def run_path(path: Path) -> Path:
    """The directory of the run itself; a path that holds no run as it is. ConfigError for one that cannot be read."""
    if not is_run(path):
        latest = path / "latest"
        path = latest if is_run(latest) else _newest(path)
    return path.parent / path.readlink() if path.is_symlink() else path


def _newest(path: Path) -> Path:
    found = runs_of(path)
    if not found.runs and found.closed:
        raise ConfigError([Problem(str(one.path), 0, f"cannot read: {one.why}") for one in found.closed])
    return found.runs[-1] if found.runs else path
