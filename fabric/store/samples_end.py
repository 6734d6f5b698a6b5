"""The end of a samples.log whose run died: a torn block is cut off, and nothing is known until sampling begins anew."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.store.durable import append
from fabric.store.plain_file import is_there, open_plain
from fabric.store.samples import last_asked
from fabric.store.samples_log import FILE, HEAD


def close_samples(run: Path) -> float:
    """
    Make the file ready for another session, which begins behind it; returns until when it tells (seconds).

    Every reading of a host becomes unknown when that host was last asked. Raises StoreError for a file that cannot be
    read or written; nothing is done where nothing was sampled, and that is 0.
    """
    path = run / FILE
    if not is_there(path):
        return 0.0
    asked, kept = last_asked(path)
    lines = [orjson.dumps([number, at_s, None]) for number, at_s in asked.items()]
    packed = zlib.compress(b"\n".join(lines), 6)
    block = HEAD.pack(len(packed), zlib.crc32(packed)) + packed if lines else b""
    try:
        fd = open_plain(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.ftruncate(fd, kept)
            append(fd, block, end=kept)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as exc:
        raise StoreError(f"{path}: cannot write: {exc.strerror}") from exc
    return max(asked.values(), default=0.0)
