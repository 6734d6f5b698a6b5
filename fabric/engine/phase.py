"""Runs the probes of one phase: a free claim is used at once, and nothing starts before it is on disk."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.engine.admission import HostHealth, ProbeAdmission, Refusal, Replanning, Waiting
from fabric.engine.deadlines import LearnedDeadlines
from fabric.engine.held_changes import HeldChanges
from fabric.engine.interruption import Interruption
from fabric.engine.observer import FollowUp, FollowUps, Means, announce
from fabric.engine.probe_run import ProbeRun, Timers
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.plan import PhasePlan
from fabric.ports import Happening, Lost, Ticket
from fabric.runs.events import Progress


def past_of(plan: PhasePlan, progress: Progress) -> Progress:
    """
    Return *progress* with the results and the added probes of this phase only.

    A phase with a time line (a change that begins or ends at its own time) is one experiment: its results stand only if
    it ended, because a measurement under another course of changes is another measurement.
    """
    name = plan.phase.name
    added = tuple(probe for probe in progress.added if probe.phase == name)
    timed = any(change.when.at_s is not None or change.when.for_s is not None for change in plan.changes)
    known = {probe.probe_id for probe in (*plan.planned, *added)} if name in progress.ended or not timed else set()
    results = {probe_id: result for probe_id, result in progress.results.items() if probe_id in known}
    return replace(progress, results=results, added=added)


def waiting(plan: PhasePlan, past: Progress) -> list[Probe]:
    """Return the probes that are still to run, in planned order, then those that were added."""
    return [probe for probe in (*plan.planned, *past.added) if probe.probe_id not in past.results]


_IDLE_WAIT_S = 60.0


class PhaseRun:
    """One phase of one run, without the *excluded* hosts; ``run`` returns every probe's result."""

    def __init__(
        self,
        plan: PhasePlan,
        means: Means,
        *,
        follow_ups: Sequence[FollowUp],
        health: HostHealth,
        learned: LearnedDeadlines,
        excluded: Mapping[str, str],
        interruption: Interruption,
        changes: HeldChanges,
        past: Progress,
    ) -> None:
        self._plan, self._phase = plan, plan.phase.name
        self._topology, self._executor, self._directory = means.topology, means.executor, means.directory
        self._observer, self._health, self._learned = means.observer, health, learned
        self._follow_ups = FollowUps(follow_ups, plan, past.rounds.get(plan.phase.name, {}))
        self._changes, self._interruption = changes, interruption
        self._announced: set[str] = set()
        self._given_up, self._heeded, self._interrupted = "", 0, False
        self._admission = ProbeAdmission(excluded, health)
        self._waiting = Waiting(waiting(plan, past))
        self._begun = past.attempts
        self._replanning = Replanning(plan.planned, means.topology, self._admission)
        known = {probe.probe_id: probe for probe in (*plan.planned, *past.added)}
        for lost, probe in past.instead:
            if lost in known:
                self._replanning.remember(known[lost], probe)
        self._first: dict[str, ProbeResult] = {}  # of probes that are tried once more: the result of the first attempt
        self._held: dict[str, float] = {}  # claim to the time until which it is probably held
        self._freed: set[str] = set()  # claims that fell free since the last dispatch
        self._running: dict[Ticket, ProbeRun] = {}
        self._alive, self._timers = 0, Timers()
        self._unstarted: list[ProbeRun] = []
        self._unheard: deque[Happening] = deque()
        self._results: list[ProbeResult] = list(past.results.values())

    def run(self) -> list[ProbeResult]:
        """Run until no probe waits or runs and every change is taken back."""
        try:
            return self._run()
        except BaseException:
            self._changes.rescue(self._unheard)
            raise

    def _run(self) -> list[ProbeResult]:
        # Nothing is altered for a phase in which nothing can be measured.
        if self._plan.changes and any(self._admission.refusal(probe) is None for probe in self._waiting):
            self._changes.begin()
            while not self._changes.ready:
                self._step()
            self._give_up_if_in_trouble()
            self._changes.begin_time_line(self._executor.now())
        self._dispatch()
        while self._alive or self._follow_up():
            self._step()
        self._take_back()
        return self._results

    def _follow_up(self) -> bool:
        """
        Begin the probes that a follow-up asks for; return whether anything runs then.

        No probe of the phase waits or runs when this is called, so the claims are free.
        """
        while not self._given_up:
            added = [probe for probe in self._directory.added if probe.phase == self._phase]
            because, probes = self._follow_ups.next(self._results, added, self._executor.now())
            if not probes:
                return False
            self._directory.replanned(probes, self._executor.now(), because=because)
            announce(probes, self._announced, self._observer)
            self._waiting.extend(probes)
            self._dispatch()
            if self._alive:
                return True
        return False

    def _take_back(self) -> None:
        """Take back every change, whatever happened; return only when each is back or known to be open."""
        self._changes.stop()
        while self._changes.busy:
            self._step()
        self._directory.flush()

    def _give_up_if_in_trouble(self) -> None:
        """Give up the phase when its changes are not in force as asked."""
        if trouble := self._changes.trouble:
            self._give_up(f"not measured: {trouble}")

    def _give_up(self, reason: str) -> None:
        """Start nothing more, end what runs, take back the changes."""
        if self._given_up:
            return
        self._given_up = reason
        for run in self._still_running():
            run.abandon(None, reason)
        self._changes.stop()

    def _heed(self) -> None:
        """React to requests to stop: end in order the first time; from the second on wait for nothing but the undo."""
        if self._interruption.times == self._heeded:
            return
        self._heeded = self._interruption.times
        still_open = self._changes.open
        self._observer.interrupted(still_open, self._heeded)
        if self._heeded > 1 and not still_open:
            raise KeyboardInterrupt
        self._interrupted = True
        self._give_up("the run was interrupted")
        if self._heeded > 1:
            self._changes.stop(hurry=True)

    def _step(self) -> None:
        self._heed()
        finished, self._unstarted = self._unstarted, []
        self._unheard.extend(() if finished else self._executor.wait(self._until_s()))
        while self._unheard:
            happening = self._unheard.popleft()
            run = self._running.get(happening.ticket)
            if run is None:
                self._changes.take(happening)
                continue
            self._running.update(dict.fromkeys(run.take(happening), run))
            if isinstance(happening, Lost):
                self._note_out(self._health.lost(happening.error, final=not self._may_try_again(run)))
            self._timers.arm(run)
            if run.done:
                finished.append(run)
        self._changes.fire()
        self._give_up_if_in_trouble()
        self._timers.fire(self._executor.now())
        for run in finished:
            self._finish(run)
        if finished:
            self._dispatch()

    def _until_s(self) -> float:
        """Return the time at which something must be done at the latest."""
        idle_s = self._executor.now() + _IDLE_WAIT_S
        return min(idle_s, self._timers.next_s, self._interruption.next_s, self._changes.next_s)

    def _finish(self, run: ProbeRun) -> None:
        self._alive -= 1
        for claim in run.probe.claims:
            self._held.pop(claim, None)
        self._freed.update(run.probe.claims)
        result = run.result()
        for ticket in run.tickets:
            self._running.pop(ticket, None)
        if self._interrupted:
            return  # no result: this is neither the fabric's fault nor ours
        if run.lost_midway and self._may_try_again(run) and self._admission.refusal(run.probe) is None:
            self._directory.finished(result, run.outputs, again=True)
            self._first[run.probe.probe_id] = result
            self._waiting.put_first(run.probe)
            return
        self._note(result)
        if run.missing is not None:
            self._note_out(self._health.silent(*run.missing))
        self._note_out(self._health.finished(run.probe, result))
        refusal = self._admission.refusal(run.probe) if result.outcome is Outcome.ERROR else None
        if refusal is not None and not self._given_up:
            self._replan(run.probe, refusal)
        # Written last: if a crash cuts these lines off, a finished probe still has its consequences on disk.
        self._directory.finished(result, run.outputs)

    def _may_try_again(self, run: ProbeRun) -> bool:
        """Allow one more attempt per probe after a lost session, but not while a change may be in force."""
        first = run.probe.probe_id not in self._first
        return first and not self._given_up and not self._changes.open

    def _note(self, result: ProbeResult) -> None:
        self._results.append(result)
        self._observer.probe_finished(result)

    def _note_out(self, name: str | None) -> None:
        """Report that a host or part went out of the run, and abandon the probes that still run on it."""
        if name is None:
            return
        reason = self._health.out[name]
        self._directory.events.append("out", self._executor.now(), {"component": name, "reason": reason})
        self._observer.out_of_run(name, reason)
        if self._changes.open and not Part.of(name).item:
            self._give_up(f"not measured: {name} stopped answering while a change was in force: {reason}")
        for run in self._still_running():
            if name in run.probe.hosts or name in run.probe.claims:
                run.abandon(Part.of(name).host, reason)

    def _still_running(self) -> list[ProbeRun]:
        return [run for run in dict.fromkeys(self._running.values()) if not run.done]

    def _dispatch(self) -> None:
        """
        Start every waiting probe whose claims are free, in planned order.

        What ended and what begins is on disk before anything starts: one fsync for both.
        """
        begun = self._choose()
        if begun:
            self._directory.started([run.probe for run in begun], self._executor.now())
        self._directory.flush()
        for run in begun:
            self._alive += 1
            self._running.update(dict.fromkeys(run.begin(), run))
            self._timers.arm(run)
            if run.done:
                self._unstarted.append(run)

    def _choose(self) -> list[ProbeRun]:
        """
        Answer the probes that may not run, and take the claims of those that may start now; the others keep waiting.
        """
        self._turn_away()
        begun = []
        for probe in self._waiting.start(self._held, self._freed, self._executor.now()):
            attempt = self._begun.get(probe.probe_id, 0) + (2 if probe.probe_id in self._first else 1)
            limit_s = self._learned.limit_s(self._plan, probe)
            run = ProbeRun(probe, self._topology, self._executor, attempt, limit_s, self._health.names)
            begun.append(run)
        self._freed.clear()
        return begun

    def _turn_away(self) -> None:
        """Answer probes of excluded or silent hosts, or of a phase that was given up, without running them."""
        if self._given_up:
            for probe in self._waiting.pop_all():
                if not self._interrupted:
                    self._answer(probe, Refusal("", Outcome.ERROR, self._given_up))
            return
        for probe in self._waiting.pop_refused(self._admission.refusal, self._admission.refused_names):
            refusal = self._admission.refusal(probe)
            if refusal is not None:
                self._answer(probe, self._replan(probe, refusal))

    def _replan(self, probe: Probe, refusal: Refusal) -> Refusal:
        """Re-plan a pair that lost a host, if possible; return the refusal to record for the lost probe."""
        refusal, instead = self._replanning.instead(probe, refusal)
        if instead is not None:
            self._directory.replanned([instead], self._executor.now(), instead_of=probe.probe_id)
            self._waiting.append(instead)
        return refusal

    def _answer(self, probe: Probe, refusal: Refusal) -> None:
        first = self._first.get(probe.probe_id)
        if first is not None:  # it was tried, and its result is on disk already
            self._note(first)
            return
        now_s = self._executor.now()
        result = ProbeResult(probe.probe_id, 0, (), refusal.outcome, refusal.reason, now_s, now_s)
        result = replace(result, error_host=refusal.error_host, left_out=refusal.left_out)
        self._directory.finished(result, ())
        self._note(result)
