"""Makes the changes of a phase from what the scenario file says of them, and checks them against the inventory."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.config.changes_file import (
    AdaptiveRoutingChange,
    BerChange,
    BerEntry,
    ChangeEntry,
    DrawnLinks,
    LinkDownChange,
    PortFlapChange,
    PortFlapEntry,
    StopAboveEntry,
)
from fabric.config.document import Tree
from fabric.config.entries import valid_items
from fabric.config.links import Links, between_switches
from fabric.config.problems import KeyPath, Problems
from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    ChangeSpec,
    LinkDownSpec,
    PortFlapSpec,
    ShieldSpec,
    When,
)
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import some
from fabric.model.fields.wording import one_of, quoted
from fabric.model.inventory import Inventory

_SM_NEEDED = "the subnet managers must be known: 'subnet_managers' under changes: in the inventory"


class _ChangeItem(Entry):
    """One entry of ``changes:`` alone, so that mistakes elsewhere do not hide it."""

    change: ChangeEntry


@dataclass(frozen=True, slots=True)
class Fabric:
    """What changes are checked against: the inventory and the links of the run."""

    inventory: Inventory
    links: Links


def change_specs(raw: Tree | None, fabric: Fabric | None, path: KeyPath, problems: Problems) -> tuple[ChangeSpec, ...]:
    """The changes of one phase that are well formed; without *fabric* (it is itself wrong) no link is looked up."""
    seen: set[tuple[str, str]] = set()
    specs = []
    items = [{"change": item} for item in raw] if isinstance(raw, list) else []
    for at, item in valid_items(_ChangeItem, items, ()):
        here = (*path, *at)
        spec = _spec(item.change, fabric, here, problems)
        if isinstance(spec, AdaptiveRoutingSpec | ShieldSpec):
            kind = "shield" if isinstance(spec, ShieldSpec) else "adaptive_routing"
            if (kind, spec.scope) in seen:
                problems.add((*here, kind), f"{kind} with scope {spec.scope} is in this phase twice")
            seen.add((kind, spec.scope))
        specs.append(spec)
    return tuple(specs)


def _spec(entry: ChangeEntry, fabric: Fabric | None, path: KeyPath, problems: Problems) -> ChangeSpec:
    """What one change asks for."""
    if isinstance(entry, BerChange):
        _check_hold(entry.ber.for_, fabric, (*path, "ber", "for"), problems)
        return _ber(entry.ber, fabric, (*path, "ber"), problems)
    if isinstance(entry, LinkDownChange):
        _check_hold(entry.link_down.for_, fabric, (*path, "link_down", "for"), problems)
        links = _links(entry.link_down.links, fabric, (*path, "link_down", "links"), problems)
        link_down = entry.link_down
        stop_above = _stop_above(link_down.stop_above, (*path, "link_down", "stop_above"), problems)
        return LinkDownSpec(links, link_down.by, When(link_down.at, link_down.for_, stop_above))
    if isinstance(entry, PortFlapChange):
        return _port_flap(entry.port_flap, fabric, (*path, "port_flap"), problems)
    if isinstance(entry, AdaptiveRoutingChange):
        return _adaptive_routing(entry, fabric, path, problems)
    if fabric is not None and not fabric.inventory.changes.subnet_managers:
        problems.add((*path, "shield"), f"to switch SHIELD {_SM_NEEDED}")
    return ShieldSpec(entry.shield, entry.scope)


def _stop_above(entry: StopAboveEntry | None, path: KeyPath, problems: Problems) -> tuple[tuple[str, float], ...]:
    """The counters that end a change and the most by which each may grow; empty when none was asked for."""
    if entry is None:
        return ()
    found = tuple((name, float(most)) for name, most in entry if most is not None)
    if not found:
        problems.add(path, f"a counter is required here: {one_of(tuple(StopAboveEntry.model_fields))}")
    return found


def _check_hold(for_s: float | None, fabric: Fabric | None, path: KeyPath, problems: Problems) -> None:
    """A change does not outlast the longest lease."""
    most_s = fabric.inventory.changes.lease.max_hold_s if fabric else None
    if for_s is not None and most_s is not None and for_s > most_s:
        text = f"expected at most {most_s:g}s, 'max_hold' of the lease in the inventory: the change is undone then"
        problems.add(path, text)


def _ber(entry: BerEntry, fabric: Fabric | None, path: KeyPath, problems: Problems) -> BerSpec:
    if entry.raw is None and entry.effective is None:
        problems.add(path, "'raw' or 'effective' is required here: the bit error rate before or after error correction")
    if entry.raw is not None and entry.effective is not None:
        problems.add(path, "'raw' and 'effective' are two kinds of bit errors: leave out one")
    rate = entry.effective if entry.raw is None else entry.raw
    return BerSpec(
        link_names=_links(entry.links, fabric, (*path, "links"), problems),
        errors="effective" if entry.raw is None else "raw",
        mantissa=rate.mantissa if rate else 1,
        exponent=rate.exponent if rate else 1,
        direction=entry.direction,
        when=When(entry.at, entry.for_, _stop_above(entry.stop_above, (*path, "stop_above"), problems)),
    )


def _port_flap(entry: PortFlapEntry, fabric: Fabric | None, path: KeyPath, problems: Problems) -> PortFlapSpec:
    if entry.count > 1 and entry.period is None:
        problems.add(path, f"'period' is required with a count of {entry.count}: from one closing to the next")
    _check_hold(entry.down, fabric, (*path, "down"), problems)
    for key in ("period", "jitter"):
        if entry.count == 1 and getattr(entry, key):
            problems.add((*path, key), f"'{key}' goes with a count of two or more")
    if entry.count > 1 and entry.period is not None and entry.period - entry.jitter <= entry.down:
        text = (
            f"expected a period above {entry.down + entry.jitter:g}s (down and jitter): the port must open in between"
        )
        problems.add((*path, "period"), text)
    return PortFlapSpec(
        link_names=_links(entry.links, fabric, (*path, "links"), problems),
        down_s=entry.down,
        count=entry.count,
        period_s=entry.period or 0.0,
        jitter_s=entry.jitter,
        seed=entry.seed,
        by=entry.by,
        when=When(entry.at, None, _stop_above(entry.stop_above, (*path, "stop_above"), problems)),
    )


def _adaptive_routing(
    entry: AdaptiveRoutingChange, fabric: Fabric | None, path: KeyPath, problems: Problems
) -> AdaptiveRoutingSpec:
    if fabric is not None:
        settings = fabric.inventory.changes
        hosts = fabric.inventory.topology.hosts
        layers = {hosts[name].platform.link_layer for name in fabric.links.hosts}
        if entry.scope == "fabric" and not fabric.inventory.topology.ethernet and not settings.subnet_managers:
            problems.add((*path, "scope"), f"to switch adaptive routing of the fabric {_SM_NEEDED}")
        if entry.scope == "fabric" and fabric.inventory.topology.ethernet:
            _need_nvue(fabric, (*path, "scope"), problems)
        if entry.scope == "host" and "infiniband" in layers:
            text = "scope host is for RoCE: on InfiniBand the subnet managers (fabric) or the job decide"
            problems.add((*path, "scope"), text)
    return AdaptiveRoutingSpec(entry.adaptive_routing, entry.scope)


def _need_nvue(fabric: Fabric, path: KeyPath, problems: Problems) -> None:
    """On RoCE every leaf and spine is told for itself, so that each must be reached and speak NVUE."""
    switches = [one for one in fabric.inventory.topology.switches.values() if one.tier in ("leaf", "spine")]
    mute = [one.name for one in switches if one.login is None or one.login.management is None]
    if mute or not switches:
        who = some(mute) if mute else "its switches"
        text = (
            f"to switch adaptive routing of a RoCE fabric {who} need 'address' and 'management: nvue' under switches:"
        )
        problems.add(path, text)


def _links(
    wanted: str | tuple[str, ...] | DrawnLinks, fabric: Fabric | None, path: KeyPath, problems: Problems
) -> tuple[str, ...]:
    """The names of links as the model writes them; what is wrong with any of them is noted."""
    if fabric is None:
        return ()
    if isinstance(wanted, DrawnLinks):
        names = fabric.links.drawn(wanted, path, problems)
    else:
        names = _named(wanted, fabric, path, problems)
    inner = next((name for name in names if between_switches(name)), None)
    if inner is not None and fabric.inventory.changes.via is None:
        text = f"to alter links between switches ({inner}) 'via' under changes: in the inventory must name a host"
        problems.add(path, text)
    return names


def _named(wanted: str | tuple[str, ...], fabric: Fabric, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    places = [(path, wanted)] if isinstance(wanted, str) else [((*path, at), text) for at, text in enumerate(wanted)]
    names: list[str] = []
    for here, text in places:
        name = fabric.links.named(text, here, problems)
        if name in names:
            problems.add(here, f"link {quoted(text)} is there twice")
        elif name is not None:
            names.append(name)
    return tuple(names)
