"""Rounds of one phase that are alike, as one: a plan of 48 hours is read in a minute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fabric.model.units import duration_text
from fabric.plan.plan import PhasePlan
from fabric.report.plan_changes import phase_lines

_ROUND = re.compile(r"(.+)-r[0-9]+")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Phases that are alike but for their names and partners; *first* stands for all."""

    members: tuple[PhasePlan, ...]

    @property
    def first(self) -> PhasePlan:
        """The one to show."""
        return self.members[0]

    @property
    def title(self) -> str:
        """Its name; of several rounds how many, how long one takes, and how long all do."""
        first, last, number = self.first.phase.name, self.members[-1].phase.name, len(self.members)
        if number == 1:
            return first
        took_s = [one.schedule.makespan_s for one in self.members]
        least, most = duration_text(min(took_s)), duration_text(max(took_s))
        each = least if least == most else f"{least} to {most}"
        return f"{first} to {last}: {number} rounds, each {each}, {duration_text(sum(took_s))} in all"


def folded_rounds(phases: Sequence[PhasePlan]) -> Iterator[Rounds]:
    """All phases; rounds that follow one another are folded, the stages of a round each by themselves."""
    for _, block in groupby(phases, key=lambda one: (one.phase.written, one.phase.where, _stage(one) is not None)):
        by_stage: dict[str, list[PhasePlan]] = {}
        for one in block:
            by_stage.setdefault(_stage(one) or one.phase.name, []).append(one)
        for stage in by_stage.values():
            for _, alike in groupby(stage, key=_shape):
                yield Rounds(tuple(alike))


def _stage(one: PhasePlan) -> str | None:
    """The name without its round; None of a phase that is not repeated."""
    found = _ROUND.fullmatch(one.phase.name)
    return found[1] if found and one.phase.label else None


def _shape(one: PhasePlan) -> object:
    """What it measures and alters; with other partners the same probes take a little less or more time."""
    return (
        one.phase.needs,
        tuple(sorted(one.probes_by_kind.items())),
        tuple(phase_lines(one.changes)),
        one.notes,
    )
