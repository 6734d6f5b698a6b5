"""What is told of parts that dipped and accuses nobody: they were measured again, and cleared or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from fabric.judge.course.courses import worst
from fabric.judge.course.dips import are_too_many
from fabric.judge.course.findings import CLEARED, OPEN, TOO_MANY, CourseFinding
from fabric.judge.course.rows import CourseRow, CourseRows
from fabric.judge.locate.structure import Bools
from fabric.judge.normal.keys import rnics_of
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe
from fabric.probes import pairwise

LEAST_TO_CLEAR = 59
"""Tests without a dip that clear a part: then it dips in fewer than 1 of 20 with 95 % (ln 0.05 / ln 0.95)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Which rows are *left* low by the parts that are *named* (their rivals, too)."""

    left: Bools
    named: AbstractSet[str]


def notes(rows: CourseRows, standing: Standing, probes: Sequence[Probe]) -> list[CourseFinding]:
    """Of parts that were measured again, and of rounds with many dips."""
    return [*_again(rows, standing), *_too_many(rows, standing, probes)]


def _again(rows: CourseRows, standing: Standing) -> list[CourseFinding]:
    left = {id(rows.rows[i]) for i in np.flatnonzero(standing.left).tolist()}
    own: dict[str, list[CourseRow]] = {}
    planned: dict[str, list[CourseRow]] = {}
    for row in rows.rows:
        part = row.probe.params.get(AGAIN)
        if part is not None:
            own.setdefault(str(part), []).append(row)
    for row in rows.rows if own else ():
        if AGAIN not in row.probe.params and row.probe.kind == pairwise.KIND:
            for end in rnics_of(row.probe):
                if end in own:
                    planned.setdefault(end, []).append(row)
    found = []
    for part, tests in own.items():
        if standing.named.isdisjoint((part, Part.of(part).host)):
            first = _first(planned.get(part, ()), left)
            if first:
                found.append(_said(part, first, tests, [one for one in tests if id(one) in left]))
    return sorted(found, key=lambda one: (one.kind == CLEARED, one.component))


def _first(planned: Sequence[CourseRow], left: AbstractSet[int]) -> str:
    """Why it was measured again; empty where it dipped only with a part that is named."""
    low = [one for one in planned if one.low]
    own = [one for one in low if id(one) in left]
    if low and not own:
        return ""
    if not own:
        return "may be why a collective of its host, or another part's further tests with it, dipped"
    return f"dipped {'once' if len(own) == 1 else f'{len(own)} times'} in {len(planned)} probes"


def _said(part: str, first: str, tests: Sequence[CourseRow], low: Sequence[CourseRow]) -> CourseFinding:
    n = len(tests)
    if low:
        text = f"{first}, and in {len(low)} of {n} more: too few to tell from chance; more rounds do"
        return CourseFinding(part, OPEN, text, probes=worst(low))
    if n < LEAST_TO_CLEAR:
        return CourseFinding(part, OPEN, f"{first}, not again in {n} more: too few to clear it; more rounds do")
    most = 1.0 - 0.05 ** (1.0 / n)  # none in n at this rate has a chance of 5 %
    text = f"{first}, not again in {n} more: no suspect (95 %: it dips in fewer than 1 of {1 / most:.0f})"
    return CourseFinding(part, CLEARED, text)


def _too_many(rows: CourseRows, standing: Standing, probes: Sequence[Probe]) -> list[CourseFinding]:
    """A note for each round in which more pair tests dipped than single parts would explain: nobody was followed."""
    tests = [(i, row) for i, row in enumerate(rows.rows) if row.probe.kind == pairwise.KIND]
    low = Counter(row.probe.phase for i, row in tests if standing.left[i])
    compared = Counter(row.probe.phase for _, row in tests)
    followed = {probe.phase for probe in probes if AGAIN in probe.params}
    text = "pair tests dipped at once: no single part, so none was measured again"
    return [
        CourseFinding(phase, TOO_MANY, f"{count} {text}")
        for phase, count in low.items()
        if are_too_many(count, compared[phase]) and phase not in followed
    ]
