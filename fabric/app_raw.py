"""What the commands of one probe of a run printed."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from fabric.errors import ConfigError, Problem
from fabric.store.events import from_events, read_events
from fabric.store.raw import raw_entries


def raw_output(path: Path, probe_id: str) -> str:
    """What the commands of one probe printed; raises ConfigError naming the nearest probe that there is."""
    text = raw_entries(path, probe_id)
    if not text:
        known = from_events(read_events(path / "events.jsonl"))
        near = get_close_matches(probe_id, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError([Problem(str(path), 0, f"nothing was printed by a probe {probe_id!r}{hint}")])
    return text
