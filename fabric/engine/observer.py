"""
Who looks at a phase from outside: an observer is told what happens, follow-ups are asked what more to measure.

When every planned probe of a phase has ended, each follow-up is asked, in order; the first that wants more is given it,
in the same phase: under the same changes, with the same claims and the same hosts out of the run. Then all are asked
again, until none wants more or has anything left to spend. A follow-up only decides; the engine runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from fabric.model.change import Change
from fabric.model.probe import AGAIN, FollowUpLimits, Probe, ProbeResult
from fabric.plan import PhasePlan
from fabric.runs.events import Round


class Observer(Protocol):
    """Somebody who watches a run: the console, a test."""

    def phase_started(self, plan: PhasePlan) -> None:
        """A phase begins."""

    def phase_ended(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """A phase is over; *results* are those of all its probes."""

    def probe_finished(self, result: ProbeResult) -> None:
        """A probe ended, or was skipped."""

    def out_of_run(self, component: str, reason: str) -> None:
        """A host, or a part of one, stopped answering; its remaining probes are errors."""

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """These parts dipped without another explanation; so many further tests of them begin now."""

    def interrupted(self, open_changes: int, again: int) -> None:
        """Somebody wants to stop (*again*: for how many times now); so many changes are being taken back first."""

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """A change came into force, was taken back, was refused and so on; states as in ChangeResult and its events."""


class FollowUp(Protocol):
    """Somebody who may want more measured after a phase's planned probes: repetitions, rounds of localisation."""

    @property
    def name(self) -> str:
        """One word for the run's history: ``samples``, ``localise``."""

    def limits(self, phase_plan: PhasePlan) -> FollowUpLimits | None:
        """What it may spend in this phase; None: it wants nothing there and is not asked."""

    def more(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> Sequence[Probe]:
        """
        The probes to run next; none when it is satisfied (it may want some again after another follow-up's round).

        *results* are all of this phase so far, in order of finishing, planned or not. *added* are the probes of this
        phase that its plan does not have: re-planned pairs, and what any follow-up was given. An id that the phase has
        already is left out by the engine. Must not alter anything and must not depend on who asks how often.
        """


@runtime_checkable
class Remembers(Protocol):
    """A follow-up that wants to know of earlier rounds what it did not ask for itself."""

    def ended(self, phase_plan: PhasePlan, results: Sequence[ProbeResult], added: Sequence[Probe]) -> None:
        """A phase is over: called once for each, in order, also of those from before an interruption."""


def announce(probes: Sequence[Probe], announced: set[str], observer: Observer) -> None:
    """Tell which parts are measured again because they dipped, each once; *announced* has those that were."""
    tests = Counter(str(probe.params[AGAIN]) for probe in probes if AGAIN in probe.params)
    if new := [part for part in tests if part not in announced]:
        announced.update(new)
        observer.measured_again(new, sum(tests[part] for part in new))


class FollowUps:
    """
    The follow-ups of one phase: asks them in order and keeps each within its limits.

    *had*: what each was given (by name) before the run was interrupted.
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
        """Who wants more, and the probes; ``("", ())`` when it is over."""
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
