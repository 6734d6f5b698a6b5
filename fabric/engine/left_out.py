"""
Hosts that a phase with ``stop_host_on: fail`` leaves out of its later rounds.

A host is left out after two rounds one after the other in which probes of its own FAILed or ended in an ERROR (a GPU
that hangs measures nothing): once may be chance, and a probe with another host does not say whose fault it is. Its
partners go on with others, as when a host is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fabric.engine.observer import Observer
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan
from fabric.runs.progress import Progress
from fabric.runs.run_directory import RunDirectory

ROUNDS_IN_A_ROW = 2
"""So many rounds in which its own probes are bad take a host out (a choice: one bad sample drains no host)."""


class Own(Protocol):
    """Hosts that are bad by their own probes and why, and hosts that do well by them."""

    @property
    def failed(self) -> Mapping[str, str]:
        """Host to what failed."""
        ...

    @property
    def well(self) -> frozenset[str]:
        """Hosts of which everything was measured and is good."""
        ...


JudgeOwn = Callable[[PhasePlan, Sequence[ProbeResult]], Own]
"""How the hosts of a phase did by their own probes."""


class LeftOut:
    """Counts bad rounds of hosts, by the written name of the phase; remembers who is left out, over a resume too."""

    def __init__(
        self,
        judge_own: JudgeOwn | None,
        *,
        directory: RunDirectory,
        clock: Callable[[], float],
        observer: Observer,
        progress: Progress,
    ) -> None:
        self._judge_own, self._directory, self._clock, self._observer = judge_own, directory, clock, observer
        self._bad_rounds = {written: dict(counts) for written, counts in progress.bad_rounds.items()}
        self._judged = set(progress.rounds_judged)
        self._hosts = dict(progress.left_out)

    def excluded(self, phase: Phase) -> dict[str, str]:
        """Who takes no part in this phase, and why."""
        return dict(self._hosts) if phase.stop_host_on is not None else {}

    def judge(self, phase_plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """After a round: count, and leave out who failed too often. Noted once, though a run goes on from here."""
        phase = phase_plan.phase
        if phase.stop_host_on is None or self._judge_own is None or phase.name in self._judged:
            return
        own = self._judge_own(phase_plan, results)
        before = self._bad_rounds.get(phase.written, {})
        after = {host: number for host, number in before.items() if host not in own.well}
        after |= {host: before.get(host, 0) + 1 for host in own.failed}
        left_out = {
            host: f"left out after {phase.name}: in {number} rounds one after the other its own probes were bad, "
            f"the last time {own.failed[host]}"
            for host, number in after.items()
            if number >= ROUNDS_IN_A_ROW and host in own.failed and host not in self._hosts
        }
        if after == before:
            return
        self._bad_rounds[phase.written] = after
        self._hosts |= left_out
        fields = {"phase": phase.name, "written": phase.written, "bad_rounds": after, "left_out": left_out}
        self._directory.events.append("round_judged", self._clock(), fields)
        for host, reason in left_out.items():
            self._observer.out_of_run(host, reason)
