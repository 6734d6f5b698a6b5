"""The plan of a whole scenario: what would run, and for how long, decided before any host is touched.

Claims decide the schedule: no two probes ever hold one claim at the same time. Each probe, in the order in which they
are asked for, starts as soon as all its claims are free for as long as it takes, also in gaps between probes that were
placed before it.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fabric.changes.kinds import expand_changes
from fabric.changes.rails import span_s
from fabric.model import gathered
from fabric.model.change import Change, Lease
from fabric.model.inventory import Inventory
from fabric.model.outcome import Reason
from fabric.model.probe import Probe
from fabric.model.scenario import Phase, Scenario
from fabric.model.text import duration_text
from fabric.probes.kinds import expand_phase, in_host_memory, left_out


@dataclass(frozen=True, slots=True)
class Slot:
    """One probe in the schedule and when it is expected to start, seconds from the start of its phase."""

    probe: Probe
    start_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    A phase's probes in order of start.

    *lower_bound_s* is the busiest claim's own work: no schedule can be shorter. *rounds* is the number of different
    start times.
    """

    slots: tuple[Slot, ...]
    makespan_s: float
    lower_bound_s: float
    busiest_claim: str
    rounds: int

    @property
    def probes(self) -> int:
        """How many probes are planned."""
        return len(self.slots)


@dataclass(slots=True)
class _Claim:
    """When a claim is held: disjoint stretches in order, each from its *begins_s* to its *ends_s* (seconds)."""

    begins_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    work_s: float = 0.0

    def free_s(self, from_s: float, for_s: float) -> float:
        """Return the first moment, not before *from_s*, from which the claim is free for *for_s*."""
        at = bisect_right(self.ends_s, from_s)
        while at < len(self.ends_s) and self.begins_s[at] < from_s + for_s:
            from_s = self.ends_s[at]
            at += 1
        return from_s

    def hold(self, from_s: float, for_s: float) -> None:
        """Mark a free time as held; stretches that touch become one."""
        until_s = from_s + for_s
        at = bisect_right(self.ends_s, from_s)
        after = at < len(self.begins_s) and self.begins_s[at] == until_s
        if at and self.ends_s[at - 1] == from_s:
            self.ends_s[at - 1] = self.ends_s.pop(at) if after else until_s
            if after:
                del self.begins_s[at]
        elif after:
            self.begins_s[at] = from_s
        else:
            self.begins_s.insert(at, from_s)
            self.ends_s.insert(at, until_s)
        self.work_s += for_s


def schedule(probes: Sequence[Probe]) -> Schedule:
    """Plan one phase. The result depends on the probes' order, claims and durations only."""
    known: dict[str, _Claim] = defaultdict(_Claim)
    slots = []
    for probe in probes:
        claims = [known[name] for name in probe.claims]
        start_s, before_s = 0.0, -1.0
        while start_s > before_s:
            before_s = start_s
            for claim in claims:
                start_s = claim.free_s(start_s, probe.duration_s)
        for claim in claims:
            claim.hold(start_s, probe.duration_s)
        slots.append(Slot(probe, start_s))
    slots.sort(key=lambda slot: slot.start_s)
    busiest = max(known, key=lambda name: known[name].work_s, default="")
    return Schedule(
        slots=tuple(slots),
        makespan_s=max((slot.start_s + slot.probe.duration_s for slot in slots), default=0.0),
        lower_bound_s=known[busiest].work_s if known else max((probe.duration_s for probe in probes), default=0.0),
        busiest_claim=busiest,
        rounds=len({slot.start_s for slot in slots}),
    )


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase with its schedule and its changes; *notes* say what was asked and could not be planned."""

    phase: Phase
    schedule: Schedule
    notes: tuple[Reason, ...]
    changes: tuple[Change, ...] = ()

    @property
    def planned(self) -> tuple[Probe, ...]:
        """The planned probes, in order of start."""
        return tuple(slot.probe for slot in self.schedule.slots)

    @property
    def probes_by_kind(self) -> dict[str, int]:
        """How many probes of each kind are planned."""
        return dict(Counter(probe.kind for probe in self.planned))

    @property
    def busiest_host(self) -> tuple[str, int, float]:
        """The host with most to do: its name, its number of probes, and the sum of their durations, seconds."""
        work_s = gathered((host, probe.duration_s) for probe in self.planned for host in probe.hosts)
        host = max(work_s, key=lambda name: sum(work_s[name]), default="")
        return host, len(work_s.get(host, ())), sum(work_s.get(host, ()))


@dataclass(frozen=True, slots=True)
class Plan:
    """Every phase of a scenario, in order."""

    phases: tuple[PhasePlan, ...]

    @property
    def duration_s(self) -> float:
        """Expected duration on hardware, seconds: phases run one after the other."""
        return sum(phase.schedule.makespan_s for phase in self.phases)

    @property
    def lower_bound_s(self) -> float:
        """The sum of the phases' lower bounds: no plan can be shorter than each phase's busiest claim."""
        return sum(phase.schedule.lower_bound_s for phase in self.phases)

    @property
    def probes(self) -> int:
        """How many probes are planned in all."""
        return sum(phase.schedule.probes for phase in self.phases)

    @property
    def planned(self) -> list[Probe]:
        """All planned probes, phase by phase."""
        return [probe for phase in self.phases for probe in phase.planned]


def plan_scenario(
    scenario: Scenario,
    inventory: Inventory,
    *,
    known: Mapping[str, PhasePlan] = MappingProxyType({}),
    alike: Callable[[Phase], object] = lambda phase: phase.name,
) -> Plan:
    """
    Expand and schedule every phase.

    *known* are phases that were planned in full before, by name. Of phases that are *alike* (equal keys) only the first
    is planned; the others get its probes, which is good for their numbers only.
    """
    made: list[PhasePlan] = []
    wholes: dict[object, PhasePlan] = {}
    for phase in scenario.phases:
        key = alike(phase)
        if key not in wholes:
            wholes[key] = known.get(phase.name) or _whole(phase, scenario, inventory)
        made.append(replace(wholes[key], phase=phase))
    return Plan(tuple(made))


def _whole(phase: Phase, scenario: Scenario, inventory: Inventory) -> PhasePlan:
    probes = expand_phase(phase, inventory.topology, scenario.hosts)
    changes = expand_changes(phase, inventory.topology, inventory.changes, scenario.hosts)
    notes = (
        *left_out(phase, scenario.hosts, probes, inventory.topology),
        *in_host_memory(phase, inventory.topology, scenario.hosts),
    )
    return PhasePlan(phase, schedule(probes), notes, changes)


def hold_problems(plan: PhasePlan, lease: Lease) -> list[str]:
    """
    Return a text for each kind of change that would be held longer than *max_hold_s* or would begin after its phase.
    """
    takes_s, phase = plan.schedule.makespan_s, plan.phase.name
    found = []
    for change in plan.changes:
        at_s = change.when.at_s or 0.0
        if at_s > 0.0 and at_s >= takes_s:
            found.append(
                f"{phase} takes about {duration_text(takes_s)}, and {change.kind} is to begin after "
                f"{duration_text(at_s)} (at): it would never be made"
            )
        elif min(span_s(change)[1], takes_s) - at_s > lease.max_hold_s:  # with the times between down times of a flap
            found.append(_too_long(change, phase, takes_s, lease))
    return list(dict.fromkeys(found))


def _too_long(change: Change, phase: str, takes_s: float, lease: Lease) -> str:
    most = f"{duration_text(lease.max_hold_s)} at most (changes: lease: max_hold of the inventory)"
    if change.lasts_s is not None and change.when.for_s is None:
        from_s, until_s = change.when.at_s or 0.0, span_s(change)[1]
        takes = f"{change.kind} of {phase} takes {duration_text(until_s - from_s)}"
        return (
            f"{takes} from its first closing to its last opening, and a change is held {most}: "
            "make its 'count' or 'period' smaller"
        )
    return (
        f"{phase} takes about {duration_text(takes_s)}, and a change is held {most}: "
        "make it shorter, split it, or give the change a 'for'"
    )
