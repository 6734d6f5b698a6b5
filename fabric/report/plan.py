"""A plan as text and as a document; similar rounds of one phase are merged, so a plan of 48 hours reads in a minute."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from fabric.changes.rails import at_once
from fabric.model import gathered
from fabric.model.change import Change, ChangeSettings
from fabric.model.scenario import DRILLS, Scenario
from fabric.model.text import duration_text, fold
from fabric.plan import PhasePlan, Plan
from fabric.report import templates
from fabric.report.changes import SCOPES, when
from fabric.report.output import jsonable

_MOST = 20  # the most lines of one phase


def change_document(change: Change) -> dict[str, Any]:
    """Return JSON-able values; times in seconds."""
    return {
        **jsonable(change, ("change_id", "kind", "component", "scope")),
        **jsonable(change.when, ("at_s", "for_s")),
        "params": dict(change.spec.params(change.component)),
        **jsonable(change, ("switches", "hosts", "is_fault")),
    }


def plan_text(plan: Plan, *, scenario: Scenario, notes: Sequence[str] = (), settings: ChangeSettings) -> str:
    """
    Return the plan as text.

    First what is altered, for whom, how much at once, and what undoes it; then phases, probes, rounds, the busiest
    host, and the expected duration. *notes* say what the limits do not fit, *settings* how changes are made there. Only
    faults count for the blast radius, as in the guard rail: a change of routing is described by its scope.
    """
    changes = [change for phase in plan.phases for change in phase.changes]
    scopes: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        scopes.setdefault((change.kind, change.scope), set()).add(change.component)
    faults = [change for change in changes if change.is_fault]
    touched = (sorted({name for change in faults for name in getattr(change, of)}) for of in ("switches", "hosts"))
    return templates.text(
        "plan.txt.j2",
        plan=plan,
        scenario=scenario,
        notes=notes,
        settings=settings,
        widest=sorted(scopes.items(), key=lambda item: (list(SCOPES).index(item[0][1]), item[0][0])),
        scopes=SCOPES,
        at_once=max((len(together) for together in at_once(faults)), default=0),
        touched=[fold(names) for names in touched if names],
        lifted=[rail for rail in scenario.allow if rail != DRILLS] if changes else [],
        folded=[(title(rounds), rounds) for rounds in folded_rounds(plan.phases)],
        when=when,
        most=_MOST,
    )


_ROUND = re.compile(r"(.+)-r[0-9]+")


def title(rounds: Sequence[PhasePlan]) -> str:
    """Return the name of a phase; for several rounds also how many, how long one takes, and how long all take."""
    first, last = rounds[0].phase.name, rounds[-1].phase.name
    if len(rounds) == 1:
        return first
    took_s = [one.schedule.makespan_s for one in rounds]
    least, most = duration_text(min(took_s)), duration_text(max(took_s))
    each = least if least == most else f"{least} to {most}"
    return f"{first} to {last}: {len(rounds)} rounds, each {each}, {duration_text(sum(took_s))} in all"


def folded_rounds(phases: Sequence[PhasePlan]) -> Iterator[tuple[PhasePlan, ...]]:
    """
    Yield all phases, with consecutive ones together that differ only in names and partners; the first stands for all.

    The stages of a round are kept apart.
    """
    for _, block in groupby(phases, key=lambda one: (one.phase.written, one.phase.where, _stage(one) is not None)):
        for stage in gathered((_stage(one) or one.phase.name, one) for one in block).values():
            for _, alike in groupby(stage, key=_shape):
                yield tuple(alike)


def _stage(one: PhasePlan) -> str | None:
    """Return the name without its round; None for a phase that is not repeated."""
    found = _ROUND.fullmatch(one.phase.name)
    return found[1] if found and one.phase.label else None


def _shape(one: PhasePlan) -> object:
    """
    Return what a phase measures and alters, without times.

    With other partners the same probes take a little less or more.
    """
    return (
        one.phase.needs,
        tuple(sorted(one.probes_by_kind.items())),
        tuple((change.component, str(change.spec), change.when, change.is_fault) for change in one.changes[:_MOST]),
        len(one.changes),
        one.notes,
    )


def plan_document(
    plan: Plan, scenario: Scenario, *, notes: Sequence[str] = (), settings: ChangeSettings
) -> dict[str, Any]:
    """Return JSON-able values: phases with counts, rounds, expected and least possible duration, changes; seconds."""
    return {
        "scenario": scenario.name,
        "hosts": list(scenario.hosts),
        "notes": list(notes),
        "probes": plan.probes,
        "duration_s": plan.duration_s,
        "lower_bound_s": plan.lower_bound_s,
        "change_limits": _limits(settings),
        "phases": [
            {
                "phase": phase.phase.name,
                "needs": list(phase.phase.needs),
                "probes": phase.probes_by_kind,
                **jsonable(phase.schedule, ("rounds", "lower_bound_s", "busiest_claim")),
                "duration_s": phase.schedule.makespan_s,
                "notes": list(map(str, phase.notes)),
                "changes": [change_document(change) for change in phase.changes],
            }
            for phase in plan.phases
        ],
    }


def _limits(settings: ChangeSettings) -> dict[str, Any]:
    """Return the limits that changes keep to."""
    lease, most = settings.lease, settings.blast_radius
    return {
        "lease_ttl_s": lease.ttl_s,
        "lease_max_hold_s": lease.max_hold_s,
        "most_changes_at_once": most.changes,
        **{f"most_{name}": getattr(most, name) for name in ("per_switch", "per_host", "links_fraction")},
    }
