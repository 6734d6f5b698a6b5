"""
What the tools printed: ``raw/<phase>/<host>.out`` and ``.err``, one transcript a host and phase, appended.

Not a file a probe: 2,048 hosts would make 300,000 files of a few hundred bytes, most of the time and 2.5 times the
disk of a run. Each entry starts with ``=== <probe id> attempt <n>``; ``fabric parse`` reads such a file as it is.

What is appended is made durable in raw.log first, all hosts with one fsync; the transcripts follow when that is large,
and when the run ends.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.command import CommandResult
from fabric.model.probe import ProbeResult
from fabric.store.durable import sync_file, sync_folder, write_at
from fabric.store.plain_file import MIB, plain_stream, read_plain, size_text
from fabric.store.raw_log import Piece, RawLog, read_pieces

MOST_LOG_BYTES = 64 << 20
"""When raw.log holds more, the transcripts are made durable and it begins anew (a choice: seconds, once in a while)."""

_SYNCING = 16
"""Threads that wait for the disk: a file system makes many files durable with one commit (measured: 3 to 30 times as
fast as one after the other)."""

MOST_TRANSCRIPT = 128 * MIB
"""Of one that is read to show what a probe printed (a choice: two days of a host make 2 MB)."""

FOLDER = "raw"
_ENTRY = b"=== "


class RawOutput:
    """
    Collects transcripts of the run in a directory; after ``flush`` they are there whatever happens.

    Opened on a run that died it mends the transcripts first; raises StoreError when that cannot be done.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, str(run / FOLDER)
        self._pending: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}  # of the transcripts, without what waits
        self._made: set[str] = set()
        self._unsynced: dict[str, None] = {}
        self._distrusted = False  # some transcript could not be made durable
        self._log = RawLog(run)
        self._mend()

    def keep(self, result: ProbeResult, outputs: Sequence[CommandResult]) -> None:
        """Take what the commands of one probe printed."""
        name = result.probe_id.rpartition("/")[0]
        head = f"=== {result.probe_id} attempt {result.attempt}\n"
        entry = self._pending.setdefault(f"{name}.out", [])
        entry.append(head)
        entry.extend([_transcript(output, output.stdout) for output in outputs])
        errors = [_transcript(output, output.stderr) for output in outputs if output.stderr]
        if errors:
            self._pending.setdefault(f"{name}.err", []).extend([head, *errors])

    def flush(self) -> None:
        """
        Make everything taken so far durable, with one fsync, and append it to the transcripts.

        Raises StoreError when the disk says no; what was not written is kept for the next flush.
        """
        if not self._pending:
            return
        pieces = self._pieces()
        self._log.write(pieces)
        for name, place, data in pieces:
            self._write(name, place, data)
            self._sizes[name] = place + len(data)
            del self._pending[name]
        if self._log.size_bytes > MOST_LOG_BYTES:
            self._begin_anew(self._log.empty)

    def settle(self) -> None:
        """
        Make the transcripts themselves durable and remove the log: all was flushed, and nothing more will come. Where
        that cannot be done the log stays, and readers look there, too.
        """
        self._begin_anew(self._log.remove)

    def let_go(self) -> None:
        """Close the log and leave it there; safe to call twice."""
        self._log.let_go()

    def _pieces(self) -> list[Piece]:
        """What waits, with its place in its transcript: behind what is there, on a line of its own."""
        for name, parts in self._pending.items():
            if name not in self._sizes:
                self._sizes[name], torn = _end(f"{self._folder}/{name}")
                parts[:0] = ["\n"] if torn else []
        return [
            (name, self._sizes[name], "".join(parts).encode("utf-8", "replace"))
            for name, parts in self._pending.items()
        ]

    def _write(self, name: str, place: int, data: bytes) -> None:
        path = f"{self._folder}/{name}"
        folder = path.rpartition("/")[0]
        try:
            if folder not in self._made:
                self._make_folder(folder)
                self._made.add(folder)
            write_at(path, data, place=place)
        except OSError as exc:
            raise StoreError(f"{path}: cannot write: {exc.strerror}") from exc
        self._unsynced[name] = None

    def _make_folder(self, folder: str) -> None:
        """Make one below raw/; raises OSError also where it, or raw/ itself, is a link: that leads somewhere else."""
        for name in (self._folder, folder):
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o755)  # noqa: PTH102 - a string path, built thousands of times
            if not stat.S_ISDIR(os.lstat(name).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)

    def _mend(self) -> None:
        """Write once more what a run that died may not have in its transcripts."""
        for name, place, data in read_pieces(self._run):
            self._write(name, place, data)
        try:
            self._sync()
            self._log.remove()
        except OSError as exc:
            raise StoreError(f"{self._folder}: cannot write: {exc.strerror}") from exc

    def _begin_anew(self, forget: Callable[[], None]) -> None:
        """
        Make the transcripts durable, and the log is needed no more. Where that fails nothing is lost: the log stays
        and grows, because a second fsync of a transcript would say yes to lost pages.
        """
        if self._distrusted:
            return
        try:
            self._sync()
            forget()
        except OSError:
            self._distrusted = True

    def _sync(self) -> None:
        """Make every transcript and its name durable. Raises OSError."""
        paths = [f"{self._folder}/{name}" for name in self._unsynced]
        if not paths:
            return
        with ThreadPoolExecutor(min(_SYNCING, len(paths))) as pool:
            list(pool.map(sync_file, paths))
        for folder in sorted({Path(path).parent for path in paths}):
            sync_folder(folder)
        sync_folder(self._run / FOLDER)
        sync_folder(self._run)
        self._unsynced.clear()


def raw_file(run: Path, probe_id: str) -> Path:
    """Where the output of a probe is kept in a run's directory."""
    return run / FOLDER / f"{probe_id.rpartition('/')[0]}.out"


def raw_entries(run: Path, probe_id: str) -> str:
    """
    Everything that a probe's commands printed, standard output first; empty when nothing is kept of it.

    Of a run that died what is only in its log is told, too. Raises StoreError for a log that cannot be read.
    """
    found: list[str] = []
    paths = (raw_file(run, probe_id), raw_file(run, probe_id).with_suffix(".err"))
    names = [path.relative_to(run / FOLDER).as_posix() for path in paths]
    logged = [piece for piece in read_pieces(run) if piece[0] in names]
    for path, name in zip(paths, names, strict=True):
        data = _content(path, [piece for piece in logged if piece[0] == name])
        found += _entries(data, f"{probe_id} attempt ".encode())
    return "".join(found)


def _entries(data: bytes, wanted: bytes) -> Iterator[str]:
    """What begins with these words; the rest of a transcript is not copied."""
    at = data.find(_ENTRY)
    while at >= 0:
        end = data.find(_ENTRY, at + len(_ENTRY))
        if data.startswith(wanted, at + len(_ENTRY)):
            yield data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")
        at = end


def _content(path: Path, logged: Sequence[Piece]) -> bytes:
    """A transcript as it is when it is mended; StoreError where it cannot be read."""
    try:
        data = read_plain(path, MOST_TRANSCRIPT)
    except (FileNotFoundError, NotADirectoryError):
        data = b""
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
    if not logged:
        return data
    mended = bytearray(data)
    for _, place, text in logged:
        if place + len(text) > MOST_TRANSCRIPT:
            raise StoreError(f"{path}: larger than {size_text(MOST_TRANSCRIPT)}")
        mended.extend(bytes(max(0, place - len(mended))))
        mended[place : place + len(text)] = text
    return bytes(mended)


def _end(path: str) -> tuple[int, bool]:
    """The size of a transcript (bytes), and whether its last line is torn; 0 for one that is not there."""
    try:
        with plain_stream(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return size, file.read(1) not in (b"", b"\n")
    except FileNotFoundError:
        return 0, False
    except OSError as exc:
        raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc


def _transcript(result: CommandResult, text: str) -> str:
    """What a person would have seen: the command line, the output, how it ended."""
    words = " ".join(result.command.argv)
    end = "" if text.endswith("\n") or not text else "\n"
    took_s = result.ended_s - result.started_s
    return f"$ [{result.command.host}] {words}\n{text}{end}[exit {result.exit_status} after {took_s:.1f} s]\n"
