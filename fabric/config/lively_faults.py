"""Faults of the simulated rack that come and go: checked against what is there, as the rack itself would."""

from __future__ import annotations

from fabric.model.fields.wording import quoted
from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.faults import KINDS, require_passing


def is_lively(kind: str) -> bool:
    """Whether a kind of fault is nothing that always is, but something that happens."""
    return kind in KINDS and KINDS[kind].comes


def passing_problem(component: str, kind: str, topology: Topology) -> str | None:
    """Why a component that is there cannot have a fault for a while; None when it can."""
    try:
        require_passing(Fault(component, kind), topology)
    except ValueError as exc:
        return f"{quoted(component)}: {str(exc).partition(': ')[2]}"
    return None
