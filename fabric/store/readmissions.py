"""Which hosts were let in again while a run went on, and when; a history without such a line is not decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fabric.errors import StoreError
from fabric.store.events import read_events
from fabric.store.so_far import readmitted

_MARK = b'"event":"readmitted"'


@dataclass(frozen=True, slots=True)
class Readmissions:
    """*at_s*: when each host was last let in again; *began_s*: when the run began (seconds of its clock)."""

    at_s: dict[str, float] = field(default_factory=dict)
    began_s: float = 0.0


def read_readmissions(history: Path) -> Readmissions:
    """Those of a run's events.jsonl; StoreError when it cannot be read."""
    try:
        if _MARK not in history.read_bytes():
            return Readmissions()
    except FileNotFoundError:
        return Readmissions()
    except OSError as exc:
        raise StoreError(f"{history}: cannot read: {exc.strerror}") from exc
    events = list(read_events(history))
    return Readmissions(readmitted(events), float(events[0]["at_s"]) if events else 0.0)
