"""
Opens what lies in a results folder without being fooled by it: regular files only, no links, never waiting, bounded.

Whoever can write into that folder could put a FIFO where a file is read (the reader waits for ever), a link to
/dev/zero (it fills the memory) or a link to a file that only the reader may read (it shows up in a message).
"""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path

MIB = 1 << 20

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
    """What is to be read is no regular file, or larger than it may be; *strerror* says which, *filename* where."""


def open_plain(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """
    Open a regular file, and return its descriptor; *flags* and *mode* are those of ``os.open``.

    The last name of the path may be no link. Raises NotPlain for anything but a regular file, OSError as ``os.open``.
    """
    before = _kind(path)
    if before not in (None, stat.S_IFREG):  # looked at first: opening a device may do something
        raise _not_plain(path, before)
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, mode)
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # it became one since it was looked at
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


def plain_stream(path: Path | str) -> FileIO:
    """Open a regular file to be read piece by piece, unbuffered; raises as ``open_plain``."""
    return FileIO(open_plain(path), "rb", closefd=True)


def read_plain(path: Path | str, most: int) -> bytes:
    """
    Read a regular file of *most* bytes at the most; raises NotPlain where it is larger or none, else OSError.

    What it says of its size is not believed: a file may grow while it is read, and those of /proc say 0.
    """
    with plain_stream(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise _too_large(path, most)
        parts: list[bytes] = []
        left = most + 1
        ask = min(size, most) + 1
        while left > 0 and (part := file.read(min(ask, left))):
            parts.append(part)
            left -= len(part)
            ask = _CHUNK
    if not left:
        raise _too_large(path, most)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def size_text(size: int) -> str:
    """A bound in bytes for a person: ``64 MiB``."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size} bytes"


def _kind(path: Path | str) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return None


def _not_plain(path: Path | str, kind: int | None) -> NotPlain:
    what = _KINDS.get(kind or 0, "something else")
    return NotPlain(errno.EINVAL, f"not a plain file ({what})", str(path))


def _too_large(path: Path | str, most: int) -> NotPlain:
    return NotPlain(errno.EFBIG, f"larger than {size_text(most)}", str(path))
