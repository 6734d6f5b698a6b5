"""The path that may be meant by one that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from fabric.model.fields.wording import quoted

ENTRIES_MOST = 2000
"""So many names of a folder are looked at (a choice)."""

_NEAR = 0.6  # the share of letters in common, as for words in a file


def near_path(path: Path) -> str:
    """``; did you mean 'scenarios/self-check.yaml'?``: its first part that is not there, as the nearest that is."""
    parts = [path, *path.parents]
    missing = [one for one in parts if not _exists(one)]
    if not missing or missing[-1].name in ("", ".."):
        return ""
    wrong = missing[-1]
    near = _near(wrong)
    if near is None:
        return ""
    meant = near / path.relative_to(wrong)
    return f"; did you mean {quoted(str(meant if _exists(meant) else near), most=200)}?"


def _near(wrong: Path) -> Path | None:
    """The entry of its folder whose name is like its own."""
    try:
        names = {entry.name for entry in islice(wrong.parent.iterdir(), ENTRIES_MOST)} - {wrong.name}
    except OSError:
        return None
    found = get_close_matches(wrong.name, sorted(names), n=1, cutoff=_NEAR)
    return wrong.with_name(found[0]) if found else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a NUL, or a name that is too long
        return False
