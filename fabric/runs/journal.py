"""
The write-ahead journal of changes: changes.jsonl, append-only, each line durable before the step it speaks of.

A line is fsynced, and the folders when the file is new, before ``record`` returns: whatever may be live on the fabric
is known here, after any crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fabric.errors import StoreError
from fabric.runs.line_log import Limits, Line, LineLog, read_lines
from fabric.runs.plain_file import GIB, MIB, is_there

JOURNAL = "changes.jsonl"
"""Its name in a run's directory."""

LIMITS = Limits(GIB, 16 * MIB, many_at_once=False)
"""Of a journal (a choice: a change every second for two days makes a tenth of it)."""

Entry = Line
"""One line: ``seq``, ``change`` (its id), ``state``, and what belongs to that state."""


class Journal:
    """Appends entries, each durable when ``record`` returns; made when the first entry is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: LineLog | None = None

    def record(self, change_id: str, state: str, fields: Mapping[str, Any]) -> None:
        """Write one entry and fsync it; raises StoreError when the disk says no (then the step must not be taken)."""
        if self._log is None:
            self._log = LineLog(self._path, LIMITS)
        try:
            self._log.add({"change": change_id, "state": state, **fields})
            self._log.flush()
        except StoreError:
            self._log.abandon()  # the next entry opens it anew, behind what was written
            self._log = None
            raise

    def close(self) -> None:
        """Let go; safe to call twice."""
        if self._log is not None:
            self._log.close()
            self._log = None


def read_journal(path: Path) -> tuple[Entry, ...]:
    """
    Every whole entry, in order; none where nothing was changed.

    Raises StoreError for a bad line that is not the torn last one.
    """
    entries = tuple(read_lines(path, LIMITS)) if is_there(path) else ()
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry.get("change"), str) or not isinstance(entry.get("state"), str):
            raise StoreError(f"{path}:{number}: not a line of this tool")
    return entries
