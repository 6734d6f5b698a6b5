"""Every kind of change, by its name in a scenario; packages add theirs by entry points ``fabric.changes``."""

from collections.abc import Sequence

from fabric.changes.adaptive_routing import AdaptiveRouting
from fabric.changes.ber import Ber
from fabric.changes.congestion import Dcqcn, Pfc
from fabric.changes.kind import FABRIC, Context, Kind
from fabric.changes.link_down import LinkDown, PortFlap
from fabric.changes.rnics import Retransmission
from fabric.changes.subnet_manager import Shield
from fabric.changes.switch_qos import Ecn, SwitchPfc
from fabric.model.change import Change, ChangeSettings
from fabric.model.fields.entry import add_others
from fabric.model.part import Part
from fabric.model.scenario import Phase
from fabric.model.topology import Topology

KINDS: dict[str, type[Kind]] = {
    one.kind: one
    for one in (Ber, LinkDown, PortFlap, AdaptiveRouting, Shield, Retransmission, Pfc, Dcqcn, Ecn, SwitchPfc)
}
"""The kinds that a scenario can ask for."""

UNUSABLE = add_others(KINDS, Kind, group="fabric.changes")
"""Kinds of other packages that cannot be used, by name, with the reason."""


def expand_changes(
    phase: Phase, topology: Topology, settings: ChangeSettings, hosts: Sequence[str]
) -> tuple[Change, ...]:
    """
    Return the changes of a phase, in the order written; the same in every run.

    *hosts* are those of the scenario. A change of scope ``host`` alters their RNICs, and a fabric-wide change is taken
    to touch them all. Scope ``job`` makes no change.
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
    """Return the switches and hosts at the ends of a cable; all hosts for the whole fabric."""
    if component == FABRIC:
        return (), tuple(hosts)
    part = Part.of(component)
    host = topology.hosts.get(part.host)
    if host is None:
        return part.link_ends or (), ()
    rnic = host.platform.rnic_by_device.get(part.item)
    return () if rnic is None else host.leaves[rnic.rail : rnic.rail + 1], (host.name,)
