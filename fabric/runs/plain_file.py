"""Safe access to files in a results folder: regular files only, no links, never blocking, bounded; durable writes.

Whoever can write into that folder could put a FIFO where a file is read (the reader waits for ever), a link to
/dev/zero (it fills the memory) or a link to a file that only the reader may read (it shows up in a message).

A run is written in a few ways: append a line whole or not at all, replace a file whole, make names of new files
durable.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path

from fabric.errors import ConfigError, StoreError

MIB, GIB = 1 << 20, 1 << 30

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
}
_CHUNK = MIB


class NotPlain(OSError):
    """The file is not a regular file, or larger than allowed; *strerror* says which, *filename* where."""


@contextmanager
def storing(path: Path | str, what: str = "cannot write", *, inside: bool = False) -> Iterator[None]:
    """
    Raise an OSError of a run's files as StoreError: ``results/x: cannot write: No space left on device``.

    *inside*: name the file that the error itself names, if it names one.
    """
    try:
        yield
    except OSError as exc:
        raise StoreError(f"{(inside and exc.filename) or path}: {what}: {exc.strerror or exc}") from exc


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Raise an OSError of a file that a person named as ConfigError: ``links.txt: cannot read: Permission denied``."""
    try:
        yield
    except OSError as exc:
        raise ConfigError.at(path, f"cannot read: {exc.strerror or exc}") from exc


def open_plain(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """
    Open a regular file, and return its descriptor; *flags* and *mode* are those of ``os.open``.

    The last name of the path must be no link. Raises NotPlain for anything but a regular file, OSError as ``os.open``.
    """
    before = _kind(path)
    if before not in (None, stat.S_IFREG):  # looked at before opening, because opening a device may do something
        raise _not_plain(path, before)
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, mode)
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # it became a link since it was looked at
            raise _not_plain(path, stat.S_IFLNK) from exc
        raise
    try:
        opened = stat.S_IFMT(os.fstat(fd).st_mode)
        if opened != stat.S_IFREG:
            raise _not_plain(path, opened)
    except BaseException:
        os.close(fd)
        raise
    return fd


def plain_stream(path: Path | str, most: int | None = None) -> BufferedReader[FileIO]:
    """Open a regular file for reading piece by piece; raises as ``open_plain``, and when it is larger than *most*."""
    return BufferedReader(_opened(path, most), _CHUNK)


def read_plain(path: Path | str, most: int) -> bytes:
    """
    Read a regular file of *most* bytes at most; raises NotPlain if it is larger or not regular, else OSError.

    Its stated size is not trusted: a file may grow while it is read, and files of /proc state 0.
    """
    with _opened(path, most) as file:
        ask = os.fstat(file.fileno()).st_size + 1
        parts: list[bytes] = []
        left = most + 1
        while left > 0 and (part := file.read(min(ask, left))):
            parts.append(part)
            left -= len(part)
            ask = _CHUNK
    if left <= 0:
        raise _too_large(path, most)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _opened(path: Path | str, most: int | None) -> FileIO:
    file = FileIO(open_plain(path), "rb")
    if most is not None and os.fstat(file.fileno()).st_size > most:
        file.close()
        raise _too_large(path, most)
    return file


def writing(path: Path | str) -> BufferedWriter:
    """Open a file for writing and drop its content. Raises as ``open_plain``."""
    return BufferedWriter(FileIO(open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "wb"))


def make_folder(path: Path | str) -> None:
    """Make a folder unless it exists; raises OSError also for a link, which leads somewhere else."""
    with suppress(FileExistsError):
        os.mkdir(path, mode=0o755)  # noqa: PTH102 - of string paths, thousands of times
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def make_asked_folder(path: Path) -> None:
    """Make the folder that a person named, with those above it; ConfigError for a file in its way, else OSError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError) as exc:
        file = next((one for one in (path, *path.parents) if os.path.lexists(one) and not one.is_dir()), path)
        raise ConfigError.at(file, "expected a folder, got a file") from exc


def whole_lines(file: BufferedReader[FileIO], path: Path | str, most: int) -> Iterator[bytes]:
    """Yield each line with its newline (the last one may lack it); NotPlain for a line of more than *most* bytes."""
    while line := file.readline(most + 1):
        if len(line) > most:
            raise NotPlain(errno.EFBIG, f"a line larger than {size_text(most)}", str(path))
        yield line


def is_there(path: Path | str) -> bool:
    """Return whether the name exists, even as a dangling link. Raises OSError when that cannot be seen."""
    return _kind(path) is not None


def size_text(size: int) -> str:
    """Return a bound in bytes for a person: ``64 MiB``."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def _kind(path: Path | str) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _not_plain(path: Path | str, kind: int | None) -> NotPlain:
    what = _KINDS.get(kind or 0, "something else")
    return NotPlain(errno.EINVAL, f"not a plain file ({what})", str(path))


def _too_large(path: Path | str, most: int) -> NotPlain:
    return NotPlain(errno.EFBIG, f"larger than {size_text(most)}", str(path))


RUN_FOLDERS = 3
"""How many folders may be new with a run: its own, its scenario's and the results folder."""


def append(fd: int, data: bytes, *, end: int) -> None:
    """
    Write *data* at *end* (bytes) of an append-only file, whole or not at all.

    After an error, a partial write is cut off again, or a later line would follow a torn one. Raises the OSError of the
    write.
    """
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        with suppress(OSError):  # readers skip a torn end, and the next writer cuts it off
            os.ftruncate(fd, end)
        raise


def append_durably(fd: int, data: bytes, *, end: int) -> None:
    """
    Append *data* as ``append`` does; it is on disk when this returns.

    Data that the disk did not take is cut off, because a second fsync would report success for lost pages.
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

    Raises OSError; on a full disk the space of the temporary file is freed again.
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
    os.rename(temporary, path)  # noqa: PTH104 - as os.rename, like the other calls of os, which tests watch
    sync_folder(path.parent)


def remove_durably(paths: Iterable[Path]) -> None:
    """Remove those of the files that exist, durably. Raises OSError; files removed before the error are gone."""
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


def sync_names(path: Path) -> None:
    """Make the name of a new file durable, and those of the folders above it that may be new too."""
    for folder in list(path.absolute().parents)[: RUN_FOLDERS + 1]:
        sync_folder(folder)
