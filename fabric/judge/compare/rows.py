"""The rows of a comparison: each component by kind of probe and message size, and the parts that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from statistics import median

from fabric.judge.compare.changed import Both, Culprit, Group, Ways, culprits
from fabric.judge.compare.ratio import change_of, interval, spread_of
from fabric.judge.normal.keys import floor_of
from fabric.model.comparison import WHOLE, Compared, Difference

FAR_OUT = 5.0
"""A probe that lies so many spreads from no change gets a row of its own, to be measured again (a choice: of 300,000
healthy ones none does)."""

_NAMED_MOST = 4
_CHANGED = (Difference.WORSE, Difference.BETTER)
_AGAIN = "seen once: measure it again"


@dataclass(slots=True)
class _Tally:
    """What happened to the probes of one component."""

    logs: list[float] = field(default_factory=list)
    lost: int = 0
    regained: int = 0

    def add(self, one: Both) -> None:
        self.logs += one.logs
        self.lost += one.lost
        self.regained += one.regained


def rows_of(seen: Sequence[Both], ways: Ways) -> list[Compared]:
    """
    One row a component, kind and size, and those of the parts that changed.

    A component is WORSE or BETTER where it explains what changed, or where everything did; whose numbers moved for
    another's sake is judged by the others.
    """
    groups: dict[Group, list[Both]] = {}
    for one in seen:
        groups.setdefault(one.group, []).append(one)
    spreads = _spreads(groups)
    whole = {group: list(_rows(group, _tallies(mine), spreads[group])) for group, mine in groups.items()}
    moved = {group for group, mine in groups.items() if _all_moved(whole[group], mine)}
    found = [row for group in moved for row in whole[group]]
    rest = [one for one in seen if one.group not in moved]
    explained: set[int] = set()
    for change in _CHANGED:
        for culprit in culprits(rest, ways, worse=change is Difference.WORSE):
            if culprit.certain or change is Difference.WORSE:
                for row, mine in _culprit_rows(culprit, change, spreads):
                    found.append(row)
                    explained |= {id(one) for one in mine}
    for group, mine in groups.items():
        if group not in moved:
            left = [one for one in mine if id(one) not in explained]
            found += _far_out(group, left, spreads[group])
            found += [_by_itself(row) for row in _rows(group, _tallies(left), spreads[group])]
    return found


def _far_out(group: Group, left: Iterable[Both], spread: float | None) -> Iterator[Compared]:
    """Single probes that changed, where no part explains it."""
    floor = floor_of(group[0])
    for one in left if spread is not None else ():
        middle = median(one.logs) if one.logs else 0.0
        if abs(exp(middle) - 1) >= floor and abs(middle) >= FAR_OUT * (spread or 0.0):
            yield Compared(one.path, *group, Difference.INCONCLUSIVE, len(one.logs), exp(middle), note=_AGAIN)


def _all_moved(rows: Sequence[Compared], seen: Sequence[Both]) -> bool:
    whole = next(row.change for row in rows if row.component == WHOLE)
    return whole in _CHANGED and len({one.path for one in seen}) > 1


def _spreads(groups: Mapping[Group, Sequence[Both]]) -> dict[Group, float | None]:
    """Of one ratio, by kind and size; where those are few, of the kind."""
    logs = {group: [value for one in found for value in one.logs] for group, found in groups.items()}
    of_kind: dict[str, list[float]] = {}
    for (kind, _), values in logs.items():
        of_kind.setdefault(kind, []).extend(values)
    return {group: spread_of(values) or spread_of(of_kind[group[0]]) for group, values in logs.items()}


def _tallies(seen: Iterable[Both]) -> dict[str, _Tally]:
    found: dict[str, _Tally] = {}
    for one in seen:
        for part in (WHOLE, *one.parts):
            found.setdefault(part, _Tally()).add(one)
    return found


def _rows(group: Group, found: Mapping[str, _Tally], spread: float | None) -> Iterator[Compared]:
    """One row a component."""
    floor = floor_of(group[0])
    for part, tally in found.items():
        yield _row(part, group, tally, interval(tally.logs, spread) if tally.logs else None, floor)


def _row(part: str, group: Group, tally: _Tally, bounds: tuple[float, float] | None, floor: float) -> Compared:
    kind, size_bytes = group
    n = len(tally.logs)
    if tally.lost > max(n, tally.regained):
        return Compared(part, kind, size_bytes, Difference.WORSE, n, note=f"{tally.lost} probes carry nothing any more")
    if tally.regained > max(n, tally.lost):
        return Compared(part, kind, size_bytes, Difference.BETTER, n, note=f"{tally.regained} probes carry bytes again")
    if not n:
        return Compared(part, kind, size_bytes, Difference.INCONCLUSIVE, 0, note="lost some probes, regained as many")
    note = f"{tally.lost} probes carry nothing any more" if tally.lost else ""
    ratio = exp(median(tally.logs))
    if bounds is None:
        note = "too few to know the spread"
        return Compared(part, kind, size_bytes, Difference.INCONCLUSIVE, n, ratio, note=note)
    return Compared(part, kind, size_bytes, change_of(bounds, floor=floor), n, ratio, *bounds, note)


def _by_itself(row: Compared) -> Compared:
    """A part that explains nothing of what changed."""
    if row.component == WHOLE:
        return row
    if row.change is Difference.WORSE:
        return replace(row, change=Difference.INCONCLUSIVE, note="no part explains it alone: measure it again")
    return replace(row, change=Difference.SAME) if row.change is Difference.BETTER else row


def _culprit_rows(
    culprit: Culprit, change: Difference, spreads: Mapping[Group, float | None]
) -> list[tuple[Compared, Sequence[Both]]]:
    """Its row for each kind and size, with the probes; where none shows it surely, the first, to be measured again."""
    others = culprit.rivals
    more = f" and {len(others) - _NAMED_MOST} more" if len(others) > _NAMED_MOST else ""
    rivals = [f"or {', '.join(others[:_NAMED_MOST])}{more}: nothing tells them apart"] if others else []
    sure, open_ = [], []
    for group, mine in culprit.through.items():
        tally = _tallies(mine)[WHOLE]
        row = next(_rows(group, {culprit.component: tally}, spreads[group]))
        said = [row.note] if tally.lost or tally.regained else []
        # What is certain for the search may be two dips: no part changed whose own interval does not leave the floor.
        if culprit.certain and (said or row.change is change):
            sure.append((replace(row, change=change, note="; ".join([*said, *rivals])), mine))
        else:
            open_.append((row, mine))
    if sure:
        return sure + [(_by_itself(row), mine) for row, mine in open_]
    row, mine = open_[0]
    once = _AGAIN if row.n < 2 else "no further from no change than noise goes: measure it again"
    return [(replace(row, change=Difference.INCONCLUSIVE, note="; ".join([once, *rivals])), mine)]
