"""
The ledger of a results folder: what a scheduler was told of nodes and reservations, a line on disk before it was told.

Its lines are those of a journal; it is nobody's own, so that each line is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath

from fabric.errors import StoreError
from fabric.runs.journal import Journal, read_journal

LEDGER = "scheduler.jsonl"
"""Its name in the results folder."""

_WAIT_S = 30.0
"""As long as one answer of Slurm may take that another holds it for."""

_AGAIN_S = 0.05


class Written:
    """A line before something is told, and one after it: *state* says what was seen to have become of it."""

    def __init__(self, ledger: Path, name: str, act: str, **fields: str) -> None:
        self._journal, self._name, self.state = Journal(ledger), name, "not seen"
        self._fields = {"act": act, **fields}

    def __enter__(self) -> Written:
        until_s = time.monotonic() + _WAIT_S
        while True:
            try:
                self._record("intended")
            except StoreError as exc:
                if not isinstance(exc.__cause__, BlockingIOError) or time.monotonic() > until_s:
                    raise
                time.sleep(_AGAIN_S)  # somebody else, as the gate of another host, writes a line
            else:
                return self

    def __exit__(self, *_: object) -> None:
        try:
            self._record(self.state)
        finally:
            self._journal.close()

    def _record(self, state: str) -> None:
        self._journal.record(self._name, state, {**self._fields, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def drains(results: Path) -> Mapping[str, str]:
    """The reason of the last drain that was written down for each node."""
    lines = read_journal(results / LEDGER)
    return {line["change"]: str(line.get("reason")) for line in lines if line.get("act") == "drain"}


def reservations(results: Path) -> Mapping[str, Path]:
    """
    The run of each reservation, by its name, that may still stand: not refused, nor seen to be gone.

    Raises StoreError for a ledger that cannot be read.
    """
    may_stand: dict[str, Path] = {}
    for line in read_journal(results / LEDGER):
        if (line.get("act"), line["state"]) in (("reserve", "refused"), ("unreserve", "done")):
            may_stand.pop(line["change"], None)
        elif line.get("act") == "reserve":
            place = PurePath(str(line.get("run", "..")))
            if place.is_absolute() or ".." in place.parts:
                raise StoreError(f"{results / LEDGER}: the reservation {str(line['change'])[:80]!r} has no run")
            may_stand[line["change"]] = results / place
    return may_stand


def reserved_by(run: Path) -> tuple[str, ...]:
    """The reservations of one run that may still stand. Raises StoreError."""
    run = run.resolve()
    return tuple(name for name, path in reservations(run.parent.parent).items() if path == run)
