"""The rows of a comparison for a reader: a host that changed as a whole is one line, not one for each of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fabric.model.comparison import WHOLE, Change, Compared

LEAST_FOLDED = 3
"""So few rows of one host stand one by one (a choice: they are no longer than what would be said of them)."""

MOST_PARTS = 4
"""More parts of one host that changed alike are the host (a choice)."""

_Key = tuple[str, Change]


def folded(rows: Sequence[Compared]) -> tuple[Compared, ...]:
    """
    The same rows, those of one host and one change as one line, where there are three or more; the order is kept.

    They are one line of the host where the host itself has such a row, or more than four of its parts have; else of
    each part (``gpu003/mlx5_2``) with three or more. The line has the numbers of the worst, which comes first, and says
    how many there are. SAME is never folded, nor is a row of several hosts (a path, an uplink).
    """
    members: dict[_Key, list[Compared]] = {}
    for row in rows:
        if _foldable(row):
            members.setdefault((_host(row), row.change), []).append(row)
    whole = {key for key, alike in members.items() if _as_a_whole(alike)}
    lines: dict[_Key, list[Compared]] = {}
    for row in rows:
        lines.setdefault(_key(row, whole), []).append(row)
    found: list[Compared] = []
    for (name, _), alike in lines.items():
        found += [_line(name, alike)] if len(alike) >= LEAST_FOLDED and _foldable(alike[0]) else alike
    return tuple(found)


def _host(row: Compared) -> str:
    return row.component.split("/")[0]


def _as_a_whole(alike: Sequence[Compared]) -> bool:
    names = {row.component for row in alike}
    return _host(alike[0]) in names or len(names) > MOST_PARTS


def _key(row: Compared, whole: AbstractSet[_Key]) -> _Key:
    """What a row's line is of; SAME and rows of several hosts are together with their like and stay as they are."""
    host = (_host(row), row.change)
    return host if _foldable(row) and host in whole else (row.component, row.change)


def _foldable(row: Compared) -> bool:
    """Of one host or a part of one; everything, paths and switches have rows of their own."""
    host = row.component.split("/")[0]
    return row.change is not Change.SAME and row.component != WHOLE and "+" not in row.component and "--" not in host


def _line(name: str, alike: Sequence[Compared]) -> Compared:
    """The worst row in the name of what all are of."""
    worst = alike[0]
    names = dict.fromkeys(row.component for row in alike)
    kinds = dict.fromkeys(row.kind for row in alike)
    parts = f" of {len(names)} components" if len(names) > 1 else ""
    shown = f": {worst.component}" if worst.component != name else ""
    said = f"worst of {len(alike)} rows{parts} ({', '.join(kinds)}){shown}; all of them: --json"
    return replace(worst, component=name, note="; ".join(text for text in (worst.note, said) if text))
