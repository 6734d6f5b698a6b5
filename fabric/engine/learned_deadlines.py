"""
How long a probe of a repeated phase is waited for, once earlier rounds have shown how long such a probe takes.

A planned deadline allows for the slowest fabric that may still answer. In hours of soak it is known better: what hangs
there would hold up a whole round for nothing. Work counts as the same where phase, kind, expected duration and number
of hosts are; whose it was does not matter, so that a slow host does not make its own deadline.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.model.probe import Probe, ProbeResult
from fabric.plan.plan import PhasePlan

TIMES = 3.0
"""So many times the longest good one (a choice: a part at a third of its rate is still measured, and FAILs by that)."""

MARGIN_S = 60.0
"""On top of it, seconds (a choice: a start takes seconds, and varies; of short probes it is most of the time)."""

_Work = tuple[str, str, float, int]


class LearnedDeadlines:
    """What was measured in earlier rounds of each repeated phase; of other phases nothing is learned."""

    def __init__(self) -> None:
        self._longest_s: dict[_Work, float] = {}

    def limit_s(self, plan: PhasePlan, probe: Probe) -> float | None:
        """The longest that this probe is worth waiting for, seconds; None where no earlier round says."""
        longest_s = None if plan.phase.fills is None else self._longest_s.get(_work(plan, probe))
        return None if longest_s is None else TIMES * longest_s + MARGIN_S

    def learn(self, plan: PhasePlan, results: Iterable[ProbeResult]) -> None:
        """After a round: what was measured in it, good or slow; what ended otherwise does not say how long it takes."""
        if plan.phase.fills is None:
            return
        probes = {slot.probe.probe_id: slot.probe for slots in plan.schedule.components for slot in slots}
        for result in results:
            probe = probes.get(result.probe_id)
            if probe is not None and result.outcome is None and result.measurements:
                work = _work(plan, probe)
                self._longest_s[work] = max(self._longest_s.get(work, 0.0), result.ended_s - result.started_s)


def _work(plan: PhasePlan, probe: Probe) -> _Work:
    return plan.phase.written, probe.kind, probe.duration_s, len(probe.hosts)
