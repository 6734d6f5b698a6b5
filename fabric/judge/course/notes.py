"""What is told of parts that dipped and accuses nobody: they were measured again, and cleared or not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from fabric.judge.course.courses import worst
from fabric.judge.course.dips import are_too_many
from fabric.judge.course.findings import CLEARED, OPEN, TOO_MANY, CourseFinding
from fabric.judge.course.rows import CourseRow, CourseRows
from fabric.judge.locate.structure import Bools
from fabric.judge.normal.keys import rnics_of
from fabric.model.part import Part
from fabric.model.probe import AGAIN
from fabric.probes import pairwise

LEAST_TO_CLEAR = 59
"""Tests without a dip that clear a part: then it dips in fewer than 1 of 20 with 95 % (ln 0.05 / ln 0.95)."""

_Pair = tuple[CourseRow, bool]  # a pair test, and whether no part that is named explains that it is low


def notes(rows: CourseRows, left: Bools, named: AbstractSet[str]) -> list[CourseFinding]:
    """
    Of parts that were measured again, and of rounds with many dips.

    *left* says which rows no part explains of those that are *named* (their rivals, too).
    """
    pairs = [
        (row, open_) for row, open_ in zip(rows.rows, left.tolist(), strict=True) if row.probe.kind == pairwise.KIND
    ]
    return [*_again(pairs, named), *_too_many(pairs)]


def _again(pairs: Sequence[_Pair], named: AbstractSet[str]) -> list[CourseFinding]:
    tests: defaultdict[str, list[_Pair]] = defaultdict(list)
    planned: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        if AGAIN in pair[0].probe.params:
            tests[str(pair[0].probe.params[AGAIN])].append(pair)
        else:
            for end in rnics_of(pair[0].probe):
                planned[end].append(pair)
    asked = [part for part in tests if named.isdisjoint((part, Part.of(part).host))]
    found = [_said(part, first, tests[part]) for part in asked if (first := _first(planned[part]))]
    return sorted(found, key=lambda one: (one.kind == CLEARED, one.component))


def _first(planned: Sequence[_Pair]) -> str:
    """Why it was measured again; empty where it dipped only with a part that is named."""
    low = [open_ for row, open_ in planned if row.low]
    if not any(low):
        return "" if low else "may be why a collective of its host, or another part's further tests with it, dipped"
    return f"dipped {'once' if sum(low) == 1 else f'{sum(low)} times'} in {len(planned)} probes"


def _said(part: str, first: str, tests: Sequence[_Pair]) -> CourseFinding:
    n, low = len(tests), [row for row, open_ in tests if open_]
    if low:
        text = f"{first}, and in {len(low)} of {n} more: too few to tell from chance; more rounds do"
        return CourseFinding(part, OPEN, text, probes=worst(low))
    if n < LEAST_TO_CLEAR:
        return CourseFinding(part, OPEN, f"{first}, not again in {n} more: too few to clear it; more rounds do")
    most = 1.0 - 0.05 ** (1.0 / n)  # none in n at this rate has a chance of 5 %
    text = f"{first}, not again in {n} more: no suspect (95 %: it dips in fewer than 1 of {1 / most:.0f})"
    return CourseFinding(part, CLEARED, text)


def _too_many(pairs: Sequence[_Pair]) -> list[CourseFinding]:
    """A note for each round in which more pair tests dipped than single parts would explain: nobody was followed."""
    low = Counter(row.probe.phase for row, open_ in pairs if open_)
    compared = Counter(row.probe.phase for row, _ in pairs)
    followed = {row.probe.phase for row, _ in pairs if AGAIN in row.probe.params}
    text = "pair tests dipped at once: no single part, so none was measured again"
    return [
        CourseFinding(phase, TOO_MANY, f"{count} {text}")
        for phase, count in low.items()
        if are_too_many(count, compared[phase]) and phase not in followed
    ]
