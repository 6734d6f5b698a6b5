"""What the changes of a scenario need of the hosts that carry them out."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.changes.kind import Alters, Context, Kind
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario

GUARD_PROGRAMS = ("flock", "setsid", "timeout")
"""What the guard of a change calls beside sh and the smallest tools."""


def altering(scenario: Scenario, inventory: Inventory) -> dict[str, Alters]:
    """The hosts that carry out changes of a scenario, and what they need for it."""
    made: dict[str, Alters] = {}
    for host, more in _needs(scenario, inventory):
        if host is not None:
            made[host] = _joined(made.get(host, Alters()), more)
    return made


def needs_via(scenario: Scenario, inventory: Inventory) -> bool:
    """True when some change reaches a switch in-band, so that the inventory must say from where."""
    return any(host is None for host, _ in _needs(scenario, inventory))


def _needs(scenario: Scenario, inventory: Inventory) -> Iterator[tuple[str | None, Alters]]:
    context = Context(inventory.topology, inventory.changes, hosts=scenario.hosts)
    for phase in scenario.phases:
        for spec in phase.changes:
            if isinstance(spec, Kind):
                yield from spec.needs(context)


def _joined(one: Alters, other: Alters) -> Alters:
    return Alters(
        tuple(dict.fromkeys(one.programs + other.programs)),
        one.guarded or other.guarded,
        tuple(dict.fromkeys(one.closes + other.closes)),
    )
