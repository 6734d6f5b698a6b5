"""acceptance.json of a post-repair run: what was decided, kept beside what it was decided from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.model.repair import Decision
from fabric.runs.plain_file import MIB, read_plain

FILE = "acceptance.json"
MOST_BYTES = 32 * MIB
"""Of acceptance.json (a choice: it takes some KB a repaired host)."""


@dataclass(frozen=True, slots=True)
class ToldDecision:
    """
    What acceptance.json says: of all hosts or links that were repaired, and of *each* by its name.

    *notes* are what does not change it, and whoever puts the host back must know: that nothing was replaced.
    """

    decision: Decision
    each: Mapping[str, Decision]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def told_decision(directory: Path) -> ToldDecision | None:
    """None where the run has no acceptance.json; StoreError where it cannot be read."""
    try:
        found = orjson.loads(read_plain(directory / FILE, MOST_BYTES))
        each = {str(one["name"]): Decision(one["decision"]) for one in found.get("each", ())}
        reasons, notes = (tuple(map(str, _list(one))) for one in (found["reasons"], found.get("notes", [])))
        return ToldDecision(Decision(found["decision"]), each, reasons, notes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise StoreError(f"{directory / FILE}: cannot be read; fabric report {directory} makes it again") from exc


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def decision_in(directory: Path) -> Decision | None:
    """What acceptance.json of a run says; None where there is none that can be read."""
    with suppress(StoreError):
        return found.decision if (found := told_decision(directory)) else None
    return None


def acceptance_bytes(document: Mapping[str, Any]) -> bytes:
    """What is in acceptance.json."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def is_kept(directory: Path, document: Mapping[str, Any]) -> bool:
    """Whether acceptance.json says just this already."""
    try:
        return read_plain(directory / FILE, MOST_BYTES) == acceptance_bytes(document)
    except OSError:
        return False
