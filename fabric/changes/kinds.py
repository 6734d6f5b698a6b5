"""Every kind of change, by the name it has in a scenario; packages add theirs by entry points ``fabric.changes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from fabric.changes.adaptive_routing import AdaptiveRouting
from fabric.changes.ber import Ber
from fabric.changes.kind import FABRIC, Context, Kind
from fabric.changes.link_down import LinkDown, PortFlap
from fabric.changes.ports import parts
from fabric.changes.shield import Shield
from fabric.model.change import Change, ChangeSettings
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

OURS: tuple[type[Kind], ...] = (
    Ber,
    LinkDown,
    PortFlap,
    AdaptiveRouting,
    Shield,
)
GROUP = "fabric.changes"


def kinds() -> Mapping[str, type[Kind]]:
    """The kinds that can be asked for: ours, then those of other packages that can be used."""
    return _found()[0]


def unusable() -> Mapping[str, str]:
    """The kinds of other packages that cannot be used, and why."""
    return _found()[1]


@cache
def _found() -> tuple[Mapping[str, type[Kind]], Mapping[str, str]]:
    good: dict[str, type[Kind]] = {one.kind: one for one in OURS}
    bad: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        try:
            kind = _loaded(point)
            if kind.kind in good:
                raise TypeError(f"there is a kind {kind.kind!r} already")
            good[kind.kind] = kind
        except Exception as exc:  # noqa: BLE001 - whatever somebody else's module raises when it is imported
            package = point.dist.name if point.dist else "a package"
            bad[point.name] = f"{package} ({point.value}) cannot be used: {type(exc).__name__}: {exc}"
    return MappingProxyType(good), MappingProxyType(bad)


def _loaded(point: EntryPoint) -> type[Kind]:
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Kind)):
        raise TypeError(f"{point.value} is no subclass of fabric.changes.kind.Kind")
    if kind.kind != point.name:
        raise TypeError(f"the entry point is called {point.name!r} and its kind {kind.kind!r}")
    return kind


def expand_changes(
    phase: Phase, topology: Topology, settings: ChangeSettings, hosts: Sequence[str]
) -> tuple[Change, ...]:
    """
    The changes of a phase, in the order written; the same in every run.

    *hosts* are those of the scenario: the ones whose RNICs a change of scope ``host`` touches, and the ones that a
    fabric-wide change is known to touch. Scope ``job`` makes no change.
    """
    context = Context(topology, settings, hosts=tuple(hosts))
    names: set[str] = set()
    found = []
    for asked in phase.changes:
        for component, scope, spec in asked.targets(context) if isinstance(asked, Kind) else ():
            name = change_id = f"{phase.name}/{spec.kind}.{component}"
            number = 1
            while change_id in names:
                number += 1
                change_id = f"{name}.{number}"
            names.add(change_id)
            found.append(Change(change_id, phase.name, component, scope, spec, *_touched(component, topology, hosts)))
    return tuple(found)


def _touched(component: str, topology: Topology, hosts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The switches and hosts at the ends of a cable; all hosts for the whole fabric."""
    if component == FABRIC:
        return (), tuple(hosts)
    if "--" in component and "/" not in component:
        one, other, _ = parts(component)
        return (one, other), ()
    name, _, device = component.partition("/")
    host = topology.hosts.get(name)
    if host is None:
        return (), ()
    rnic = host.platform.rnic_by_device.get(device)
    leaf = host.leaves[rnic.rail : rnic.rail + 1] if rnic is not None else ()
    return tuple(leaf), (name,)
