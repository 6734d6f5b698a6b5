"""The history of a run: events.jsonl, append-only, one line one event, as ``line_log`` writes and reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fabric.store.line_log import Limits, Line, LineLog, read_lines
from fabric.store.plain_file import GIB, MIB

FILE = "events.jsonl"
"""Its name in a run's directory."""

LIMITS = Limits(16 * GIB, 64 * MIB)
"""Of a history (choices: two days of 2,048 hosts make 1.1 GiB; the largest line names the probes of a phase: 300,000
are 15 MB)."""

Event = Line
"""One line of a run's history: ``seq``, ``at_s``, ``event``, and what belongs to that event."""


class EventLog(LineLog):
    """Appends events, behind those that are there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, LIMITS)

    def append(self, event: str, at_s: float, fields: Mapping[str, Any]) -> None:
        """Take an event; it is durable after the next ``flush``."""
        self.add({"at_s": round(at_s, 6), "event": event, **fields})


def read_events(path: Path, *kinds: str) -> Iterator[Event]:
    """
    Every event, in order, each decoded when it is asked for; with *kinds* only those, and no other is decoded.

    Raises StoreError as ``read_lines``.
    """
    found = read_lines(path, LIMITS, [b'"event":"%s"' % kind.encode() for kind in kinds])
    return (event for event in found if event["event"] in kinds) if kinds else found
