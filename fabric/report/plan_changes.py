"""The changes of a plan: in words, and for pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fabric.changes.concurrency import at_once
from fabric.model.change import Change, ChangeSettings
from fabric.model.names import fold
from fabric.model.scenario import DRILLS
from fabric.plan.plan import Plan
from fabric.report.change_words import SCOPES, when

_MOST = 20  # lines of one phase


def warning_lines(plan: Plan, settings: ChangeSettings | None, allow: Sequence[str]) -> Iterator[str]:
    """
    What a person must know first: what is altered, for whom, how much at once, and what undoes it.

    *settings*: how changes are made on this fabric, None when that is not known; *allow*: guard rails that are lifted.
    """
    changes = [change for phase in plan.phases for change in phase.changes]
    if not changes:
        return
    scopes: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        scopes.setdefault((change.kind, change.scope), set()).add(change.component)
    widest_first = sorted(scopes.items(), key=lambda item: (list(SCOPES).index(item[0][1]), item[0][0]))
    yield f"changes: {', '.join(_scope(kind, scope, len(found)) for (kind, scope), found in widest_first)}"
    faults = [change for change in changes if change.is_fault]
    if faults:
        yield f"blast radius: {_radius(faults, settings)}"
    if settings is not None:
        lease = settings.lease
        yield (
            f"lease: undone {lease.ttl_s:g} s after this program is last heard of, "
            f"and after {lease.max_hold_s:g} s at the latest"
        )
    lifted = [rail for rail in allow if rail != DRILLS]
    if lifted:
        yield f"guard rails lifted: {', '.join(lifted)}"


def _radius(faults: Sequence[Change], settings: ChangeSettings | None) -> str:
    """Only faults are counted, as the guard rail counts them: how the fabric routes is said by its scope."""
    most_at_once = max(len(together) for together in at_once(faults))
    text = f"up to {most_at_once} fault{'' if most_at_once == 1 else 's'} at once"
    if settings is not None:
        most = settings.blast_radius
        text += (
            f" (allowed: {most.changes}, {most.per_switch} a switch, {most.per_host} a host, "
            f"{most.links_fraction:.0%} of the links)"
        )
    switches = sorted({name for change in faults for name in change.switches})
    hosts = sorted({name for change in faults for name in change.hosts})
    touched = [fold(names) for names in (switches, hosts) if names]
    return f"{text}, at {', '.join(touched)}" if touched else text


def phase_lines(changes: Sequence[Change]) -> Iterator[str]:
    """One line for each change of a phase."""
    for change in changes[:_MOST]:
        fault = "" if change.is_fault else " (no fault: limits apply)"
        yield f"change: {change.component}: {change.spec}, {when(change.when)}{fault}"
    if len(changes) > _MOST:
        yield f"and {len(changes) - _MOST:,} more changes"


def change_document(change: Change) -> dict[str, Any]:
    """JSON-able; seconds."""
    return {
        "change_id": change.change_id,
        "kind": change.kind,
        "component": change.component,
        "scope": change.scope,
        "at_s": change.when.at_s,
        "for_s": change.when.for_s,
        "params": dict(change.spec.params(change.component)),
        "switches": list(change.switches),
        "hosts": list(change.hosts),
        "is_fault": change.is_fault,
    }


def settings_document(settings: ChangeSettings) -> dict[str, Any]:
    """JSON-able: the limits that changes keep to."""
    most = settings.blast_radius
    return {
        "lease_ttl_s": settings.lease.ttl_s,
        "lease_max_hold_s": settings.lease.max_hold_s,
        "most_changes_at_once": most.changes,
        "most_per_switch": most.per_switch,
        "most_per_host": most.per_host,
        "most_links_fraction": most.links_fraction,
    }


def _scope(kind: str, scope: str, components: int) -> str:
    if scope in ("fabric", "job"):
        return f"{kind} ({SCOPES[scope]})"
    things = {"port": "cable", "host": "host"}[scope]
    return f"{kind} ({components} {things}{'' if components == 1 else 's'})"
