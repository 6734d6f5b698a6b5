"""Whether a verdict speaks of all that its run has measured: it says how long the history was that it rests on."""

from __future__ import annotations

from pathlib import Path

from fabric.errors import StoreError
from fabric.store.events import FILE
from fabric.store.plain_file import MIB

MOST_BYTES = 192 * MIB
"""Of verdict.json (a choice: of 300,000 probes that all failed it takes 100 MB)."""

KEY = "history_bytes"
"""Its key in verdict.json. Times of files would not do: they change when a run is copied to another place."""


def history_bytes(run: Path) -> int:
    """The size of a run's events.jsonl (bytes), 0 where there is none; StoreError when that cannot be seen."""
    try:
        return (run / FILE).lstat().st_size
    except FileNotFoundError:
        return 0
    except OSError as exc:
        raise StoreError(f"{run / FILE}: cannot read: {exc.strerror}") from exc


def is_of_all(run: Path, judged_bytes: int | None) -> bool:
    """
    Whether a verdict that rests on so much of the history (bytes) rests on all of it.

    Of a verdict that does not say so (None: an older version wrote it), and where no history is kept, it is believed.
    """
    now = history_bytes(run)
    return judged_bytes is None or now in (0, judged_bytes)
