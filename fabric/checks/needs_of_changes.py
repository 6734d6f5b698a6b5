"""What the changes of a scenario need of the hosts that carry them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    ChangeSettings,
    ChangeSpec,
    LinkDownSpec,
    PortFlapSpec,
    ShieldSpec,
)
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario

GUARD_PROGRAMS = ("flock", "setsid", "timeout")
"""What the guard of a change calls beside sh and the smallest tools."""


@dataclass(frozen=True, slots=True)
class Alters:
    """
    What changes do on one host, and nothing at all where *programs* is empty.

    *programs* are called as root, *guarded*: a guard holds a change here. *closes*: RNICs of this host whose own end
    is closed.
    """

    programs: tuple[str, ...] = ()
    guarded: bool = False
    closes: tuple[str, ...] = ()


def altering(scenario: Scenario, inventory: Inventory) -> dict[str, Alters]:
    """The hosts that carry out changes of a scenario, and what they need for it."""
    made: dict[str, Alters] = {}
    for phase in scenario.phases:
        for spec in phase.changes:
            for host, more in _needs(spec, scenario, inventory):
                made[host] = _joined(made.get(host, Alters()), more)
    return made


def needs_via(scenario: Scenario, settings: ChangeSettings) -> bool:
    """True when some change reaches a switch in-band, so that the inventory must say from where."""
    return any(
        host is None
        for phase in scenario.phases
        for spec in phase.changes
        if isinstance(spec, BerSpec | LinkDownSpec | PortFlapSpec)
        for host, _ in _of_links(spec, settings)
    )


def _joined(one: Alters, other: Alters) -> Alters:
    return Alters(
        tuple(dict.fromkeys(one.programs + other.programs)),
        one.guarded or other.guarded,
        tuple(dict.fromkeys(one.closes + other.closes)),
    )


def _needs(spec: ChangeSpec, scenario: Scenario, inventory: Inventory) -> Iterator[tuple[str, Alters]]:
    settings = inventory.changes
    if isinstance(spec, AdaptiveRoutingSpec | ShieldSpec):
        if spec.scope == "fabric":
            for manager in settings.subnet_managers:
                yield manager.host, Alters(("cat", manager.reload[0]), guarded=True)
            for manager in settings.subnet_managers[:1]:
                yield settings.via or manager.host, Alters(("sminfo",))
        elif spec.scope == "host":
            for name in scenario.hosts:
                yield name, Alters(("mlxreg",), guarded=True)
        return
    for host, alters in _of_links(spec, settings):
        if host is not None:
            yield host, alters


def _of_links(
    spec: BerSpec | LinkDownSpec | PortFlapSpec, settings: ChangeSettings
) -> Iterator[tuple[str | None, Alters]]:
    """For each link who does what; None stands for the host from which switches are reached, when none is named."""
    for name in spec.link_names:
        host, slash, device = name.partition("/")
        if isinstance(spec, BerSpec):
            yield from _of_ber(spec, host if slash else None, settings.via)
            continue
        by = spec.by or settings.port_state
        if by == "ibportstate" or not slash:
            yield settings.via, Alters(("ibportstate", "iblinkinfo"), guarded=True)
        else:
            yield host, Alters(tuple(dict.fromkeys((by, "mlxlink"))), guarded=True, closes=(device,))


def _of_ber(spec: BerSpec, host: str | None, via: str | None) -> Iterator[tuple[str | None, Alters]]:
    """``up`` is sent by the lower end, the host's own where it is one; what receives it is asked for its counters."""
    yield via, Alters(("iblinkinfo", "perfquery"))
    if host is None:
        yield via, Alters(("mlxreg",), guarded=True)
        return
    if spec.direction in ("up", "both"):
        yield host, Alters(("mlxreg",), guarded=True)
    if spec.direction in ("down", "both"):
        yield via, Alters(("mlxreg",), guarded=True)
        yield host, Alters(("mlxlink",))
