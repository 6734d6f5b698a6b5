"""The rows of a comparison for one kind of probe and one message size: what changed, by component."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import median

from fabric.judge.compare.ratio import change_of, interval
from fabric.judge.compare.shared import Culprit, Way, culprits
from fabric.judge.normal.keys import floor_of
from fabric.model.comparison import WHOLE, Compared, Difference
from fabric.model.part import Part

FAR_OUT = 5.0
"""A single probe that lies so many spreads from no change is worth a row of its own (a choice: of 300,000 healthy ones
none does)."""

Group = tuple[str, int | None]
"""Kind and size."""

_NAMED_MOST = 4
_FEW = 3  # ends of pairs over unknown uplinks, the named one among them: two partners may share an uplink by chance


@dataclass(frozen=True, slots=True)
class Both:
    """
    One probe that both runs measured, or that the fabric failed in one of them.

    *path* is what it is called where it is listed by itself, *parts* are the components that get a row, *way* is what
    it passes through between hosts (None: it stays within one). *logs* are the logarithms of its repetitions over
    themselves in the other run; *lost*: it carries nothing any more, *regained*: it does again.
    """

    path: str
    parts: tuple[str, ...]
    way: Way | None
    logs: tuple[float, ...] = ()
    lost: bool = False
    regained: bool = False


@dataclass(frozen=True, slots=True)
class Within:
    """What kinds of probes with fewer hosts say: parts that *changed*, and how, and those that are *well*."""

    changed: Mapping[Difference, AbstractSet[str]] = field(default_factory=dict)
    well: AbstractSet[str] = frozenset()


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


def rows_of(
    group: Group, seen: Sequence[Both], spread: float | None, *, within: Within
) -> tuple[list[Compared], list[Both]]:
    """
    One row a component, and the probes of which it is still to be seen whether they stand alone (``far_out``).

    Of probes between hosts a part is WORSE or BETTER only when it is what the changed ones have in common; what it
    explains is no sign against other parts. *spread* is that of one logarithm, None when it is not known.
    """
    rows = list(_rows(group, _tallies(seen), spread))
    whole = next(row.change for row in rows if row.component == WHOLE)
    ways = [one for one in seen if one.way is not None]
    if not ways or (whole in (Difference.WORSE, Difference.BETTER) and len({one.path for one in seen}) > 1):
        return rows, list(seen)
    shared: list[Compared] = []
    explained: set[int] = set()
    for change in (Difference.WORSE, Difference.BETTER):
        for culprit in _culprits(change, ways, floor_of(group[0])):
            if change is Difference.BETTER and not culprit.certain:
                continue
            shared.append(_culprit_row(group, culprit, change, ways, within, spread))
            explained |= {id(ways[number]) for number in culprit.through}
    rest = [one for one in seen if id(one) not in explained]
    alone = list(far_out(group, rest, spread, set[str]().union(*within.changed.values()) - within.well))
    paths = {row.component for row in alone}
    rest = [one for one in rest if one.path not in paths]
    rows = [_by_itself(row) for row in _rows(group, _tallies(rest), spread)]
    return shared + alone + rows, []


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
    """A part of probes between hosts that is not what the changed ones have in common."""
    if row.component == WHOLE:
        return row
    if row.change is Difference.WORSE:
        return replace(
            row, change=Difference.INCONCLUSIVE, note="too few to tell it from its partners: measure it again"
        )
    return replace(row, change=Difference.SAME) if row.change is Difference.BETTER else row


def _culprits(change: Difference, ways: Sequence[Both], floor: float) -> list[Culprit]:
    """What the probes that became worse, or better, have in common."""
    worse = change is Difference.WORSE
    ratios = [
        ([0.0] if (one.lost if worse else one.regained) else [])
        + [exp(value if worse else -value) for value in one.logs]
        for one in ways
    ]
    return culprits([one.way for one in ways if one.way is not None], ratios, floor=floor)


def _culprit_row(
    group: Group,
    culprit: Culprit,
    change: Difference,
    ways: Sequence[Both],
    within: Within,
    spread: float | None,
) -> Compared:
    changed = [ways[number] for number in sorted(culprit.changed)]
    name, note = _named(culprit, changed, within, change)
    tally = _Tally()
    for one in changed:
        tally.add(one)
    row = next(_rows(group, {name: tally}, spread))
    said = [row.note] if tally.lost or tally.regained else []
    # What is certain for the decoder may be two dips: no part changed whose own interval does not leave the floor.
    if not said and row.low is not None and row.change is not change:
        text = "no further from no change than noise goes: measure it again"
        return replace(row, change=Difference.INCONCLUSIVE, note="; ".join(each for each in (note, text) if each))
    if not culprit.certain:
        return replace(
            row, change=Difference.INCONCLUSIVE, note="; ".join([*said, note, "seen once: measure it again"][-2:])
        )
    return replace(row, change=change, note="; ".join(text for text in (*said, note) if text))


def _named(culprit: Culprit, changed: Sequence[Both], within: Within, change: Difference) -> tuple[str, str]:
    """
    What a culprit is called, and what it cannot be told from.

    A part that probes with fewer hosts accuse too is that one. One pair alone speaks of the pair. Of parts that explain
    the same one that several RNICs share comes first, and an RNIC that is well elsewhere last.
    """
    names = [culprit.component, *culprit.rivals]
    accused = within.changed.get(change, frozenset())
    known = [name for name in names if accused & {_side(name), Part.of(name).host} or _has_part(name, accused)]
    if known:
        return known[0], ""
    paths = {one.path for one in changed}
    ends = {end for one in changed if one.way is not None for end in one.way.ends}
    if len(paths) == 1 and (culprit.rivals or _side(culprit.component) in ends):
        return paths.pop(), "one of its ends, or what is between them"
    if culprit.rivals:
        names.sort(key=lambda name: (_side(name) in ends, _side(name) in within.well))
        more = f" and {len(names) - 1 - _NAMED_MOST} more" if len(names) - 1 > _NAMED_MOST else ""
        return names[0], f"or {', '.join(names[1 : 1 + _NAMED_MOST])}{more}: nothing tells them apart"
    partners = ends - {_side(culprit.component)}
    blind = len(partners) < len(ends) <= _FEW and all(one.way is not None and one.way.blind for one in changed)
    return names[0], "or uplinks that its pairs share: which they crossed is not known" if blind else ""


def _has_part(host: str, accused: AbstractSet[str]) -> bool:
    return any(Part.of(name).item and Part.of(name).host == host for name in accused)


def _side(name: str) -> str:
    """The part of which a name may be one direction."""
    return str(Part.of(name).both_ways)


def far_out(group: Group, seen: Iterable[Both], spread: float | None, told: AbstractSet[str]) -> Iterator[Compared]:
    """
    Single paths that changed while the components around them did not: a path has no row of its own.

    *told* are the components that have become worse or better by any kind of probe.
    """
    kind, size_bytes = group
    floor = floor_of(kind)
    paths: dict[str, list[Both]] = {}
    for one in seen:
        if told.isdisjoint(one.parts):
            paths.setdefault(one.path, []).append(one)
    for path, members in paths.items():
        logs = [value for one in members for value in one.logs]
        if any(one.lost for one in members):
            yield Compared(path, kind, size_bytes, Difference.WORSE, len(logs), note="carries nothing any more")
            continue
        if not logs or spread is None:
            continue
        middle = median(logs)
        if abs(exp(middle) - 1) < floor or abs(middle) < FAR_OUT * spread:
            continue
        change, note = _of_path(logs, floor)
        yield Compared(path, kind, size_bytes, change, len(logs), exp(middle), note=note)


def _of_path(logs: Sequence[float], floor: float) -> tuple[Difference, str]:
    if len(logs) == 1:
        return Difference.INCONCLUSIVE, "seen once: measure it again"
    if max(logs) < log(1 - floor):
        return Difference.WORSE, ""
    if min(logs) > log(1 + floor):
        return Difference.BETTER, ""
    return Difference.INCONCLUSIVE, "its repetitions disagree"
