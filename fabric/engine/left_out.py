"""
Hosts that a phase with ``stop_host_on: fail`` leaves out of its later rounds, and hosts that were let in again.

A host is left out after two rounds one after the other in which probes of its own FAILed or ended in an ERROR (a GPU
that hangs measures nothing): once may be chance, and a probe with another host does not say whose fault it is. Its
partners go on with others, as when a host is lost. A host that was let in again is on trial: its first bad round leaves
it out, until it had a good one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from fabric.engine.admission import HostHealth
from fabric.engine.observer import Observer
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan
from fabric.runs.progress import Progress
from fabric.runs.run_directory import RunDirectory

FOLDER = "READMIT"
"""What the folder is called; what is in its files does not matter."""

_MOST = 100_000  # names that are looked at


def asked(run: Path) -> list[str]:
    """The hosts that somebody wants back, in order of their names; none where the folder cannot be read."""
    try:
        with _opened(run) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, _MOST) if not entry.name.startswith("."))
    except OSError:
        return []


def answered(run: Path, hosts: Iterable[str]) -> None:
    """They are back, or never were away: their files go. One that cannot be removed is answered once more later."""
    with suppress(OSError), _opened(run) as folder:
        for host in hosts:
            with suppress(OSError):
                os.unlink(host, dir_fd=folder)


@contextmanager
def _opened(run: Path) -> Iterator[int]:
    """The folder's descriptor; raises OSError where it is a link: what lies elsewhere is not ours to remove."""
    fd = os.open(run / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


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
        self._on_trial = set(progress.on_trial)
        self.readmitted: dict[str, float] = dict(progress.readmitted)

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
            host: self._why(host, phase.name, number, own.failed[host])
            for host, number in after.items()
            if (number >= ROUNDS_IN_A_ROW or host in self._on_trial) and host in own.failed and host not in self._hosts
        }
        on_trial = self._on_trial - own.well - left_out.keys()
        if after == before and on_trial == self._on_trial:
            return
        self._bad_rounds[phase.written], self._on_trial = after, on_trial
        self._hosts |= left_out
        fields = {
            "phase": phase.name,
            "written": phase.written,
            "bad_rounds": after,
            "left_out": left_out,
            "on_trial": sorted(on_trial),
        }
        self._directory.events.append("round_judged", self._clock(), fields)
        for host, reason in left_out.items():
            self._observer.out_of_run(host, reason)

    def _why(self, host: str, phase: str, number: int, what: str) -> str:
        if host in self._on_trial:
            return f"left out again after {phase}: readmitted, and still bad by its own probes: {what}"
        return (
            f"left out after {phase}: in {number} rounds one after the other its own probes were bad, "
            f"the last time {what}"
        )

    def let_in(
        self, health: HostHealth, failed: Iterable[MutableMapping[str, str]], *, at_the_end: bool = False
    ) -> None:
        """
        Before a phase: hosts that somebody wants back take part again, whatever kept them out.

        *health* knows those that stopped answering, *failed* those that did not pass an earlier phase. *at_the_end* of
        the run it is only written down: no phase is left that could measure them, and the verdict says so.
        """
        hosts = asked(self._directory.path)
        for host in hosts:
            found = [self._hosts.pop(host, None), health.readmit(host), *(gone.pop(host, None) for gone in failed)]
            why = next((reason for reason in found if reason is not None), None)
            for counts in self._bad_rounds.values():
                counts.pop(host, None)
            if why is not None:
                now_s = self.readmitted[host] = self._clock()
                self._on_trial.add(host)
                if not at_the_end:
                    self._observer.back_in_run(host, why)
                self._directory.events.append("readmitted", now_s, {"component": host, "reason": why})
        if hosts:
            self._directory.flush()
            answered(self._directory.path, hosts)

    def still_failed(self, failed: Mapping[str, str], results: Sequence[ProbeResult]) -> dict[str, str]:
        """Of the hosts that did not pass a phase, those that were not readmitted after it."""
        ended_s = max((result.ended_s for result in results), default=0.0)
        return {host: why for host, why in failed.items() if self.readmitted.get(host, -1.0) < ended_s}
