"""The folder ``READMIT`` in a run's directory: a file there asks the run to let the host of that name in again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FOLDER = "READMIT"
"""What the folder is called; what is in its files does not matter."""


def asked(run: Path) -> list[str]:
    """The hosts that somebody wants back, in order of their names; none where the folder cannot be read."""
    try:
        return sorted(path.name for path in (run / FOLDER).iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def answered(run: Path, hosts: Iterable[str]) -> None:
    """They are back, or never were away: their files go. One that cannot be removed is answered once more later."""
    for host in hosts:
        with suppress(OSError):
            (run / FOLDER / host).unlink()
