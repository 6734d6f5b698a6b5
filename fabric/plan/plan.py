"""The plan of a whole scenario: what would run, for how long, decided before any host is touched."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fabric.changes.expand import expand_changes
from fabric.model.change import Change
from fabric.model.inventory import Inventory
from fabric.model.scenario import Phase, Scenario
from fabric.plan.schedule import Schedule, schedule
from fabric.probes.kinds import expand_phase, left_out


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase with its schedule and its changes; *notes* say what was asked and could not be planned."""

    phase: Phase
    schedule: Schedule
    notes: tuple[str, ...]
    changes: tuple[Change, ...] = ()

    @property
    def probes_by_kind(self) -> dict[str, int]:
        """How many probes of each kind."""
        return dict(Counter(slot.probe.kind for component in self.schedule.components for slot in component))

    @property
    def busiest_host(self) -> tuple[str, int, float]:
        """The host with most to do: its name, its number of probes, and their durations added up, seconds."""
        probes: Counter[str] = Counter()
        work_s: dict[str, float] = {}
        for component in self.schedule.components:
            for slot in component:
                for host in slot.probe.hosts:
                    probes[host] += 1
                    work_s[host] = work_s.get(host, 0.0) + slot.probe.duration_s
        if not work_s:
            return "", 0, 0.0
        host = max(work_s, key=lambda name: work_s[name])
        return host, probes[host], work_s[host]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every phase of a scenario, in order."""

    phases: tuple[PhasePlan, ...]

    @property
    def duration_s(self) -> float:
        """Expected duration on hardware: phases run one after the other."""
        return sum(phase.schedule.makespan_s for phase in self.phases)

    @property
    def lower_bound_s(self) -> float:
        """No schedule can be shorter than each phase's busiest claim."""
        return sum(phase.schedule.lower_bound_s for phase in self.phases)

    @property
    def probes(self) -> int:
        """How many probes in all."""
        return sum(phase.schedule.probes for phase in self.phases)


def plan_scenario(scenario: Scenario, inventory: Inventory) -> Plan:
    """Expand and schedule every phase."""
    return Plan(tuple(_plan_phase(phase, scenario, inventory) for phase in scenario.phases))


def _plan_phase(phase: Phase, scenario: Scenario, inventory: Inventory) -> PhasePlan:
    probes = expand_phase(phase, inventory.topology, scenario.hosts)
    changes = expand_changes(phase, inventory.topology, inventory.changes, scenario.hosts)
    return PhasePlan(phase, schedule(probes), tuple(left_out(phase, scenario.hosts, probes)), changes)
