"""What verdict.json of a run tells, as long as it speaks of all that the run has measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.runs.events import EVENTS
from fabric.runs.plain_file import MIB, read_plain

FILE = "verdict.json"

MOST_BYTES = 192 * MIB
"""Of verdict.json (a choice: of 300,000 probes that all failed it takes 100 MB)."""

KEY = "history_bytes"
"""Its key for how long the history was that it rests on. Times of files would not do: they change with a copy."""


@dataclass(frozen=True, slots=True)
class ToldVerdict:
    """The outcome in one word, ``pass``, and who is suspected."""

    outcome: str
    suspects: tuple[Suspect, ...]


def told_verdict(run: Path) -> ToldVerdict | None:
    """None where there is none, or one older than what was measured; StoreError for one that cannot be read."""
    file = run / FILE
    try:
        found = orjson.loads(read_plain(file, MOST_BYTES))
        if not is_of_all(run, found.get(KEY)):
            return None
        return ToldVerdict(str(found["outcome"]), tuple(_suspect(entry) for entry in found["suspects"]))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{file}: cannot be read: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StoreError(f"{file}: cannot be read: {exc}; fabric analyze {run} makes it again") from exc


def history_bytes(run: Path) -> int:
    """The size of a run's events.jsonl (bytes), 0 where there is none; StoreError when that cannot be seen."""
    try:
        return (run / EVENTS).lstat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as exc:
        raise StoreError(f"{run / EVENTS}: cannot read: {exc.strerror}") from exc


def is_of_all(run: Path, judged_bytes: int | None) -> bool:
    """
    Whether a verdict that rests on so much of the history (bytes) rests on all of it.

    Of a verdict that does not say so (None), and where no history is kept, it is believed.
    """
    now = history_bytes(run)
    return judged_bytes is None or now in (0, judged_bytes)


def is_told(run: Path) -> bool:
    """Whether verdict.json speaks of all that was measured; what cannot be read does not."""
    try:
        return told_verdict(run) is not None
    except StoreError:
        return False


def _suspect(entry: Mapping[str, Any]) -> Suspect:
    """A suspect as JSON has it; TypeError, KeyError or ValueError where it is none."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return Suspect(**{**found, "outcome": Outcome(entry["outcome"])})
