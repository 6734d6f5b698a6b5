"""How much of the fabric planned changes alter at the same time, against what the inventory allows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

from fabric.changes.rails import ISOLATE, managed
from fabric.model.change import BlastRadius, Change, ChangeSettings
from fabric.model.topology import Topology

ALLOW = "blast_radius"
"""The word of a scenario's ``allow`` for more than the blast radius."""

_NEVER = "nothing allows it"


def blast_problems(
    changes: Sequence[Change], topology: Topology, settings: ChangeSettings, allow: Collection[str]
) -> list[str]:
    """Everything that is too much, in words; each says what would allow it, or that nothing does."""
    if not changes:
        return []
    found = list(_single(changes, topology, settings))
    total = sum(1 for _ in topology.links())
    for together in at_once(changes):
        found += _together(together, total, topology, settings, allow)
    return list(dict.fromkeys(found))


def together_problems(
    together: tuple[Change, ...], topology: Topology, settings: ChangeSettings, allow: Collection[str]
) -> list[str]:
    """What is too much of changes that are in force at the same time, in the same words."""
    return list(_together(together, sum(1 for _ in topology.links()), topology, settings, allow))


def _together(
    together: tuple[Change, ...], total: int, topology: Topology, settings: ChangeSettings, allow: Collection[str]
) -> Iterator[str]:
    yield from _pairs(together)
    yield from _same_keys(together, settings)
    if ALLOW not in allow:
        yield from (f"{text}{_unless(ALLOW)}" for text in _counted(together, total, settings.blast_radius))
    if ISOLATE not in allow:
        yield from (f"{text}{_unless(ISOLATE)}" for text in _cut_off(together, topology))


def _unless(word: str) -> str:
    return f" (to do it all the same: allow: [{word}])"


def span_s(change: Change) -> tuple[float, float]:
    """From when until when a change may be in force, seconds after the phase's first probe; a flap's whole span."""
    when, params = change.when, change.params
    lasts_s = inf if when.for_s is None else when.for_s
    if change.kind == "port_flap":
        down_s, period_s = float(params["down_s"]), float(params["period_s"])
        longer_s = sum(max(0.0, float(value)) for name, value in params.items() if name.startswith("jitter_"))
        lasts_s = (int(params["count"]) - 1) * max(down_s, period_s) + down_s + longer_s
    return (-inf, lasts_s) if when.at_s is None else (when.at_s, when.at_s + lasts_s)


def at_once(changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Every set of changes that are in force together: those at the moment at which each one begins."""
    spans = [(change, *span_s(change)) for change in changes]
    sets = dict.fromkeys((change.phase, begin_s) for change, begin_s, _ in spans)
    for phase, now_s in sets:
        yield tuple(change for change, from_s, until_s in spans if change.phase == phase and from_s <= now_s < until_s)


def _single(changes: Sequence[Change], topology: Topology, settings: ChangeSettings) -> Iterator[str]:
    """What no company makes better or worse."""
    for change in changes:
        name = managed(change, (), settings)
        by_switches = topology.ethernet and change.kind == "adaptive_routing"
        if name is not None:
            yield f"{change.change_id}: {name} is for management and never touched; {_NEVER}"
        if change.scope == "fabric" and not by_switches and not settings.subnet_managers:
            yield f"{change.change_id}: the inventory names no subnet managers (changes: subnet_managers); {_NEVER}"
        if settings.via is None and _needs_via(change):
            yield f"{change.change_id}: switch ports are reached through a host (changes: via); {_NEVER}"


def _needs_via(change: Change) -> bool:
    if change.scope != "port":
        return False
    between_switches = "/" not in change.component
    by_switch = change.params.get("by") == "ibportstate" or change.params.get("direction", "up") != "up"
    return between_switches or by_switch


def _pairs(together: tuple[Change, ...]) -> Iterator[str]:
    """Two changes of one cable or setting: neither could tell what it found from what the other one did."""
    seen: dict[object, Change] = {}
    for change in together:
        key = (change.scope, change.kind if change.scope != "port" else "", _cable(change.component))
        first = seen.setdefault(key, change)
        if first is not change:
            yield f"{change.change_id}: {first.change_id} alters {change.component} at the same time; {_NEVER}"


def _same_keys(together: tuple[Change, ...], settings: ChangeSettings) -> Iterator[str]:
    """Two changes that give one key of the subnet managers' file a value: the undo of one would undo the other."""
    keys = {
        "adaptive_routing": (settings.adaptive_on, settings.adaptive_off),
        "shield": (settings.shield_on, settings.shield_off),
    }
    seen: dict[str, Change] = {}
    for change in together:
        if change.scope != "fabric" or change.kind not in keys:
            continue
        for key, _ in keys[change.kind][0 if change.params["on"] else 1]:
            first = seen.setdefault(key, change)
            if first.kind != change.kind:
                yield f"{change.change_id}: {first.change_id} sets {key} of the same file; {_NEVER}"


def _cable(component: str) -> tuple[str, ...]:
    """The same for both ways to write a cable: ``a--b``, ``b--a#0``."""
    ends, _, number = component.partition("#")
    return (*sorted(ends.split("--")), number or "0")


def _counted(together: tuple[Change, ...], total: int, most: BlastRadius) -> Iterator[str]:
    """
    The four numbers of the blast radius.

    What is counted are faults: how the fabric routes is said by its scope, not by a number. At least one link may
    always be altered, however few there are.
    """
    faults = [change for change in together if change.is_fault]
    if len(faults) > most.changes:
        yield f"{len(faults)} changes at the same time in {together[0].phase}, {most.changes} are allowed"
    for what, names, limit in (
        ("switch", [name for change in faults for name in change.switches], most.per_switch),
        ("host", [name for change in faults for name in change.hosts], most.per_host),
    ):
        for name in dict.fromkeys(names):
            if names.count(name) > limit:
                yield f"{names.count(name)} changes at the same time at {what} {name}, {limit} allowed for each {what}"
    links = {_cable(change.component) for change in faults if change.scope == "port"}
    if links:
        share = max(1, int(most.links_fraction * total))
        if len(links) > share:
            part = f"links_fraction {most.links_fraction:g}"
            yield f"{len(links)} of {total} links at the same time, {share} allowed ({part})"


def _cut_off(together: tuple[Change, ...], topology: Topology) -> Iterator[str]:
    """Hosts of whose RNICs every one that has a cable is altered at the same time."""
    altered: dict[str, set[str]] = {}
    for change in together:
        name, slash, device = change.component.partition("/")
        if slash and change.is_fault:
            altered.setdefault(name, set()).add(device)
    for name, devices in altered.items():
        host = topology.hosts.get(name)
        cabled = set() if host is None else {r.device for r in host.platform.rnics if r.rail < len(host.leaves)}
        if cabled and cabled <= devices:
            what = "its only RNIC" if len(cabled) == 1 else f"all its {len(cabled)} RNICs"
            yield f"{name} would lose its last path: {what} would be altered at the same time"
