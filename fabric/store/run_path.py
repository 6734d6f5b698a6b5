"""Which run a person means: its directory, a link to it (``latest``), or a scenario's folder for its newest."""

from __future__ import annotations

from pathlib import Path

FILE = "run.json"


def run_path(path: Path) -> Path:
    """The directory of the run itself; a path that holds no run as it is."""
    if not (path / FILE).exists():
        latest = path / "latest"
        found = [latest] if (latest / FILE).exists() else sorted(one.parent for one in path.glob(f"*/{FILE}"))
        path = found[-1] if found else path
    return path.parent / path.readlink() if path.is_symlink() else path
