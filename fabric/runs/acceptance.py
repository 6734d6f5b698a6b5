"""acceptance.json of a post-repair run: what was decided, kept beside what it was decided from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from fabric.model.repair import Decision
from fabric.runs.plain_file import MIB, read_plain

FILE = "acceptance.json"
MOST_BYTES = 32 * MIB
"""Of acceptance.json (a choice: it takes some KB a repaired host)."""


def acceptance_in(directory: Path) -> dict[str, Any]:
    """What it says; empty where there is none with a decision that can be read."""
    try:
        found = orjson.loads(read_plain(directory / FILE, MOST_BYTES))
        return {**found, "decision": Decision(found["decision"])}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def decision_in(directory: Path) -> Decision | None:
    """What was decided; None where nothing that can be read says it."""
    return acceptance_in(directory).get("decision")


def acceptance_bytes(document: Mapping[str, Any]) -> bytes:
    """What is in acceptance.json."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def is_kept(directory: Path, document: Mapping[str, Any]) -> bool:
    """Whether acceptance.json says just this already."""
    try:
        return read_plain(directory / FILE, MOST_BYTES) == acceptance_bytes(document)
    except OSError:
        return False
