"""
What the tools printed: ``raw/<phase>/<host>.out`` and ``.err``, one transcript a host and phase, appended.

Not a file a probe: 2,048 hosts would make 300,000 files of a few hundred bytes, most of the time and 2.5 times the
disk of a run. Each entry starts with ``=== <probe id> attempt <n>``; ``fabric parse`` reads such a file as it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.command import CommandResult
from fabric.model.probe import ProbeResult
from fabric.store.durable import append


class RawOutput:
    """Collects transcripts; ``flush`` appends them to their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._pending: dict[str, list[str]] = {}
        self._made: set[str] = set()

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
        Append everything taken so far, without fsync (a result is in the history; 4,096 files a flush are too many).

        Raises StoreError when the disk says no; what was not written is kept for the next flush.
        """
        while self._pending:
            name, parts = next(iter(self._pending.items()))
            path = f"{self._folder}/{name}"
            try:
                self._append(path, "".join(parts).encode("utf-8", "replace"))
            except OSError as exc:
                raise StoreError(f"{path}: cannot write: {exc.strerror}") from exc
            del self._pending[name]

    def _append(self, path: str, data: bytes) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - a string path, built thousands of times
            self._made.add(folder)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            end = os.fstat(fd).st_size
            if end and os.pread(fd, 1, end - 1) != b"\n":  # torn when an earlier process died: begin a line
                data = b"\n" + data
            append(fd, data, end=end)
        finally:
            os.close(fd)


def raw_file(run: Path, probe_id: str) -> Path:
    """Where the output of a probe is kept in a run's directory."""
    return run / "raw" / f"{probe_id.rpartition('/')[0]}.out"


def raw_entries(run: Path, probe_id: str) -> str:
    """Everything that a probe's commands printed, standard output first; empty when nothing is kept of it."""
    found = []
    for path in (raw_file(run, probe_id), raw_file(run, probe_id).with_suffix(".err")):
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        entries = text.split("=== ")
        found += [f"=== {entry}" for entry in entries if entry.startswith(f"{probe_id} attempt ")]
    return "".join(found)


def _transcript(result: CommandResult, text: str) -> str:
    """What a person would have seen: the command line, the output, how it ended."""
    words = " ".join(result.command.argv)
    end = "" if text.endswith("\n") or not text else "\n"
    took_s = result.ended_s - result.started_s
    return f"$ [{result.command.host}] {words}\n{text}{end}[exit {result.exit_status} after {took_s:.1f} s]\n"
