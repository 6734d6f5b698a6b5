"""
From claims to a schedule: which probe starts when, so that no two probes ever hold one claim.

Each probe, in the order in which they are asked for, starts as soon as all its claims are free for as long as it takes,
also between others that were placed before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from fabric.model.probe import Probe


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

    @property
    def components(self) -> tuple[tuple[Slot, ...], ...]:
        """All of them as one group."""
        return (self.slots,)


@dataclass(slots=True)
class _Claim:
    """When a claim is held: from *begins_s* until *ends_s*, pairwise, in order, apart from each other (seconds)."""

    begins_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    work_s: float = 0.0

    def free_s(self, from_s: float, for_s: float) -> float:
        """The first moment, not before *from_s*, from which it is free for so long."""
        at = bisect_right(self.ends_s, from_s)
        while at < len(self.ends_s) and self.begins_s[at] < from_s + for_s:
            from_s = self.ends_s[at]
            at += 1
        return from_s

    def hold(self, from_s: float, for_s: float) -> None:
        """It is held, and was free; what touches is one stretch."""
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
