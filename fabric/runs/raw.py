"""
What the tools printed: ``raw/<phase>/<host>.out`` and ``.err``, one transcript a host and phase, appended.

Not a file a probe: 2,048 hosts would make 300,000 files of a few hundred bytes, most of the time and 2.5 times the
disk of a run. Each entry starts with ``=== <probe id> attempt <n>``; ``fabric parse`` reads such a file as it is.

What is appended is there however the run dies, and durable when the run has ended: no verdict rests on it, and to make
thousands of files durable after each probe would be what a run spends its time with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.command import CommandResult
from fabric.model.probe import ProbeResult
from fabric.runs.plain_file import MIB, append, make_folder, open_plain, read_plain, storing, sync_file, sync_folder

_SYNCING = 16
"""Threads that wait for the disk: a file system makes many files durable with one commit (measured: 3 to 30 times as
fast as one after the other)."""

MOST_TRANSCRIPT = 128 * MIB
"""Of one that is read to show what a probe printed (a choice: two days of a host make 2 MB)."""

FOLDER = "raw"
_ENTRY = b"=== "


class RawOutput:
    """Collects transcripts of the run in a directory; after ``flush`` they are there however this process ends."""

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, str(run / FOLDER)
        self._pending: dict[str, list[str]] = {}
        self._begun: set[str] = set()  # transcripts that this process has written to
        self._made: set[str] = set()  # and their folders

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
        Append everything taken so far to the transcripts.

        Raises StoreError when the disk says no; what was not written is kept for the next flush.
        """
        for name in list(self._pending):
            path = f"{self._folder}/{name}"
            with storing(path):
                self._write(path, "".join(self._pending[name]).encode("utf-8", "replace"))
            del self._pending[name]

    def settle(self) -> None:
        """Make the transcripts and their names durable: all was flushed. Raises StoreError when the disk says no."""
        if not self._begun:
            return
        folders = [*sorted(self._made), self._folder, str(self._run)]
        with storing(self._folder):
            with ThreadPoolExecutor(_SYNCING) as pool:
                list(pool.map(sync_file, self._begun))
            for folder in folders:
                sync_folder(Path(folder))
        self._begun.clear()

    def _write(self, path: str, data: bytes) -> None:
        """Behind what is there, on a line of its own: a process that died may have left a torn one."""
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            self._make_folder(folder)
            self._made.add(folder)
        fd = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            end = os.fstat(fd).st_size
            if end and path not in self._begun and os.pread(fd, 1, end - 1) != b"\n":
                data = b"\n" + data
            append(fd, data, end=end)
            self._begun.add(path)
        finally:
            os.close(fd)

    def _make_folder(self, folder: str) -> None:
        """Make one below raw/; raises OSError."""
        make_folder(self._folder)
        make_folder(folder)


def raw_file(run: Path, probe_id: str) -> Path:
    """Where the output of a probe is kept in a run's directory."""
    return run / FOLDER / f"{probe_id.rpartition('/')[0]}.out"


def raw_entries(run: Path, probe_id: str) -> str:
    """
    Everything that a probe's commands printed, standard output first; empty when nothing is kept of it.

    Raises StoreError for a transcript that cannot be read.
    """
    found: list[str] = []
    for path in (raw_file(run, probe_id), raw_file(run, probe_id).with_suffix(".err")):
        try:
            data = read_plain(path, MOST_TRANSCRIPT)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            raise StoreError(f"{path}: cannot read: {exc.strerror}") from exc
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


def _transcript(result: CommandResult, text: str) -> str:
    """What a person would have seen: the command line, the output, how it ended."""
    words = " ".join(result.command.argv)
    end = "" if text.endswith("\n") or not text else "\n"
    took_s = result.ended_s - result.started_s
    return f"$ [{result.command.host}] {words}\n{text}{end}[exit {result.exit_status} after {took_s:.1f} s]\n"
