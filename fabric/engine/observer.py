"""What a run is carried out with: an Observer is told what happens in a phase, a FollowUp may ask for more probes.

When every planned probe of a phase has ended, the follow-ups are asked in order. The first that wants more gets it in
the same phase: under the same changes, with the same claims and the same hosts out of the run. Then all are asked
again, until none wants more or none has anything left to spend. A follow-up only decides; the engine runs the probes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fabric.model.change import Change
from fabric.model.probe import AGAIN, FollowUpLimits, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.plan import PhasePlan
from fabric.ports import Executor
from fabric.runs.events import Round
from fabric.runs.run_directory import RunDirectory


class Observer(Protocol):
    """Watches a run: the console, a test."""

    def phase_started(self, plan: PhasePlan) -> None:
        """A phase begins."""

    def phase_ended(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """A phase ended; *results* are those of all its probes."""

    def probe_finished(self, result: ProbeResult) -> None:
        """A probe ended or was skipped."""

    def out_of_run(self, component: str, reason: str) -> None:
        """A host, or a part of one, stopped answering; its remaining probes are errors."""

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """These *parts* dipped without another explanation; *tests* further probes of them begin now."""

    def interrupted(self, open_changes: int, again: int) -> None:
        """Somebody asked to stop, for the *again*-th time; *open_changes* changes are taken back first."""

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """
        A change came into force, was taken back, was refused and so on; *state* is as in ChangeResult and its events.
        """


@dataclass(frozen=True, slots=True)
class Means:
    """The means that all phases of a run share."""

    topology: Topology
    executor: Executor
    directory: RunDirectory
    observer: Observer


class FollowUp(Protocol):
    """Asks for more probes after the planned ones of a phase: repetitions, rounds of localisation."""

    @property
    def name(self) -> str:
        """One word for the run's history: ``samples``, ``localise``."""

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """Return what it may spend in this phase, or None when it wants nothing there and is not to be asked."""

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """
        Return the probes to run next; none when satisfied (more may follow after another follow-up's round).

        *results* are all results of this phase so far, planned or not, in order of finishing. *added* are the probes of
        this phase that are not in its plan: re-planned pairs, and what any follow-up was given. The engine leaves out
        ids that the phase already has. Must not alter anything, and must not depend on who asks how often.
        """


@runtime_checkable
class RemembersPhases(Protocol):
    """A follow-up that also wants to learn the results of earlier phases."""

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """A phase is over. Called once for each phase, in order, including those from before an interruption."""


def announce(probes: Sequence[Probe], announced: set[str], observer: Observer) -> None:
    """
    Tell the observer which parts are measured again because they dipped, each part once; *announced* collects them.
    """
    tests = Counter(str(probe.params[AGAIN]) for probe in probes if AGAIN in probe.params)
    if new := [part for part in tests if part not in announced]:
        announced.update(new)
        observer.measured_again(new, sum(tests[part] for part in new))


class FollowUps:
    """
    The follow-ups of one phase; asks them in order and keeps each within its limits.

    *had*: by name, what each follow-up was given before the run was interrupted.
    """

    def __init__(self, parts: Sequence[FollowUp], phase_plan: PhasePlan, had: Mapping[str, Round]) -> None:
        self._phase_plan = phase_plan
        limited = ((part, part.limits(phase_plan)) for part in parts)
        self._parts = [(part, limits) for part, limits in limited if limits is not None]
        self._spent = dict(had)
        self._known = {probe.probe_id for probe in phase_plan.planned}

    def next(
        self, results: Sequence[ProbeResult], added: Sequence[Probe], now_s: float
    ) -> tuple[str, tuple[Probe, ...]]:
        """Return the name of the follow-up that wants more and its probes; ``("", ())`` when none does."""
        self._known.update(probe.probe_id for probe in added)
        for part, limits in self._parts:
            spent = self._spent.setdefault(part.name, Round(0, 0, now_s))
            left = limits.probes - spent.probes
            if spent.rounds >= limits.rounds or left <= 0 or now_s - spent.since_s >= limits.budget_s:
                continue
            wanted = {probe.probe_id: probe for probe in part.more(self._phase_plan, results, added)}
            probes = tuple(probe for probe_id, probe in wanted.items() if probe_id not in self._known)[:left]
            if probes:
                self._spent[part.name] = Round(spent.rounds + 1, spent.probes + len(probes), spent.since_s)
                self._known.update(probe.probe_id for probe in probes)
                return part.name, probes
        return "", ()
