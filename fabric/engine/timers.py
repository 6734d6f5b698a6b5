"""The deadlines of the probes that run, soonest first."""

from __future__ import annotations

import heapq

from fabric.engine.probe_run import ProbeRun


class Timers:
    """Wakes probes whose deadline has come; a deadline that the probe has changed meanwhile is void."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ProbeRun]] = []
        self._number = 0

    @property
    def next_s(self) -> float | None:
        """The soonest deadline, executor's seconds; None when there is none."""
        return self._heap[0][0] if self._heap else None

    def arm(self, run: ProbeRun) -> None:
        """Note the present deadline of a probe, if it has one."""
        if run.deadline_s is not None:
            self._number += 1
            heapq.heappush(self._heap, (run.deadline_s, self._number, run))

    def fire(self, now_s: float) -> list[ProbeRun]:
        """Tell every probe whose deadline has come; returns those that are done with that."""
        ended: list[ProbeRun] = []
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, run = heapq.heappop(self._heap)
            if run.deadline_s == due_s and not run.done:
                run.overdue()
                if run.done:
                    ended.append(run)
        return ended
