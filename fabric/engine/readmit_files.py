"""The folder ``READMIT`` in a run's directory: a file there asks the run to let the host of that name in again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

FOLDER = "READMIT"
"""What the folder is called; what is in its files does not matter."""

_MOST = 100_000  # names that are looked at


def asked(run: Path) -> list[str]:
    """The hosts that somebody wants back, in order of their names; none where the folder cannot be read."""
    try:
        with _opened(run) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, _MOST) if not entry.name.startswith("."))
    except OSError:
        return []


def answered(run: Path, hosts: Iterable[str]) -> None:
    """They are back, or never were away: their files go. One that cannot be removed is answered once more later."""
    with suppress(OSError), _opened(run) as folder:
        for host in hosts:
            with suppress(OSError):
                os.unlink(host, dir_fd=folder)


@contextmanager
def _opened(run: Path) -> Iterator[int]:
    """The folder's descriptor; raises OSError where it is a link: what lies elsewhere is not ours to remove."""
    fd = os.open(run / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
