"""The few ways in which the store writes: all of a line, a file replaced whole, the names of new files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fabric.runs.plain_file import open_plain

RUN_FOLDERS = 3
"""A run's folder, its scenario's and the results' folder: all may be new with a run."""


def append(fd: int, data: bytes, *, end: int) -> None:
    """
    Write *data* behind the *end* (bytes) of an append-only file, whole or not at all.

    After an error what was written of it is cut off again, else a later line would stand behind a torn one. Raises the
    OSError of the write.
    """
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        with suppress(OSError):  # a reader leaves a torn end out, and who goes on here cuts it off
            os.ftruncate(fd, end)
        raise


def append_durably(fd: int, data: bytes, *, end: int) -> None:
    """
    As ``append``, and on the disk when it returns.

    What the disk did not take is cut off, because a second fsync would say yes to lost pages.
    """
    append(fd, data, end=end)
    try:
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, end)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """
    Replace a file whole: temporary file beside it, fsync, rename, fsync of the folder.

    Raises OSError; a full disk then gets back what the temporary file took.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    fd = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        append(fd, data, end=0)
        os.fsync(fd)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(fd)
    os.rename(temporary, path)  # noqa: PTH104 - beside the other calls of os, which tests watch
    sync_folder(path.parent)


def remove_durably(paths: Iterable[Path]) -> None:
    """Remove those of the files that are there, for good. Raises OSError: what was removed until then is gone."""
    folders = set()
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            folders.add(path.parent)
    for folder in folders:
        sync_folder(folder)


def sync_file(path: str) -> None:
    """Make the content of a file durable. Raises OSError."""
    _sync(open_plain(path))


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    _sync(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_names(path: Path, *, folders: int = RUN_FOLDERS) -> None:
    """Make the name of a new file durable, and those of so many folders above it that may be new too."""
    for folder in list(path.absolute().parents)[: folders + 1]:
        sync_folder(folder)
