"""
Writes the ``recorded:`` section, and puts it into the text of a baseline file without touching anything else there.

A baseline file is written by people, with comments that say where its numbers come from: only the section is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fabric.config.recorded import Candidate
from fabric.model.recorded import Recorded
from fabric.model.units import size_text

_HEAD = "recorded:"
_NOTE = "  # What good runs measured; written by `fabric baseline accept`, which replaces this section as a whole."
_TOP_LEVEL = re.compile(r"[^\s#\-\]\}]")


def recorded_section(entries: Iterable[Recorded]) -> str:
    """The section as text, one line a key, in an order that does not depend on that of *entries*."""
    lines = sorted(_line(entry) for entry in entries)
    return "\n".join((_HEAD, _NOTE, *lines)) + "\n"


def candidate_text(candidate: Candidate) -> str:
    """A whole candidate file."""
    return (
        "# Made by `fabric baseline record`. Nothing is judged by it until a person has read it and says\n"
        "# `fabric baseline accept` with this file.\n"
        f"name: {candidate.name}\nbackend: {candidate.backend}\n{recorded_section(candidate.recorded)}"
    )


def with_recorded(text: str, entries: Iterable[Recorded]) -> str:
    """
    The text of a baseline file with its section replaced, or appended where there is none.

    The section is everything from ``recorded:`` to the last line that belongs to it; comments and blank lines that
    follow, before the next key, are that key's.
    """
    lines = text.splitlines(keepends=True)
    section = recorded_section(entries)
    start = next((number for number, line in enumerate(lines) if line.startswith(_HEAD)), None)
    if start is None:
        return f"{text.rstrip()}\n{section}"
    end = next((n for n in range(start + 1, len(lines)) if _TOP_LEVEL.match(lines[n])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "".join(lines[:start]) + section + "".join(lines[end:])


def _line(entry: Recorded) -> str:
    key = entry.key
    fields = {
        "kind": key.kind,
        "tool": key.tool,
        "link_class": key.link_class,
        "size": None if key.size_bytes is None else size_text(key.size_bytes),
        "ranks": key.ranks,
        "algorithm": key.algorithm,
        "direction": key.direction,
        "line_rate_gbps": None if key.line_rate_gbps is None else f"{key.line_rate_gbps:g}",
        "median_gbps": f"{entry.median_gbps:.6g}",
        "mad_gbps": f"{entry.mad_gbps:.4g}",
        "n": entry.n,
        "cv": f"{entry.cv:.4g}",
        "trimmed": entry.trimmed or None,
        "runs": f"[{', '.join(entry.runs)}]",
    }
    return f"  - {{{', '.join(f'{name}: {value}' for name, value in fields.items() if value is not None)}}}"
