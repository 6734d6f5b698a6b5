"""Holds the changes of one phase: begun before its probes or on its time line, and all taken back before it ends.

While changes are in force, the run's own executor watches for conditions that end all of them early:

- a link that is no target goes down, or bit errors take their own link away;
- a host that holds a guard cannot be asked any more, or a lease is not renewed for half its time;
- a counter of a receiver grew above ``stop_above``.

The first condition that is met becomes the reason; HeldChanges then takes the changes back.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from fabric.changes.hold import Hold
from fabric.changes.kind import Context, Counters, kind_of
from fabric.changes.procedure import Conductor, Procedure, Silence
from fabric.changes.rails import Concurrency
from fabric.changes.watching import Lookout, period_s, watch_cable, watch_counters, watch_host, watched_ports
from fabric.engine.observer import Means
from fabric.errors import CommandTimeout, ExecutorError, FabricError, HostUnreachable
from fabric.model.change import Change
from fabric.model.probe import Command
from fabric.plan import PhasePlan
from fabric.ports import Executor, Happening, Lost
from fabric.runs.journal import Journal

RENEWED_WITHIN = 4
"""A renewal is due after a quarter of the lease, and counts as lost when unanswered for another such part."""

LIVE = frozenset({"armed", "in_force", "lifted"})
"""States of a change in which its guard must be reachable and links may go down because of it."""

Note = Callable[[str, Mapping[str, Any]], None]
"""Writes an event into the run's history."""


class StopConditions:
    """
    The stop conditions of one phase; ``looks`` carries out the looks that check them.

    ``reason`` is empty until one is met; ``since_s`` is the last time at which everything was seen to be well.
    """

    def __init__(
        self, changes: tuple[Change, ...], context: Context, *, hosts: Collection[str], executor: Executor, note: Note
    ) -> None:
        self.reason, self.since_s = "", inf
        self._changes, self._context, self._executor, self._note = changes, context, executor, note
        self._faults = tuple(change for change in changes if change.is_fault)
        touched = {host for change in self._faults for host in change.hosts}
        self._hosts = tuple(sorted(touched.union(hosts))) if self._faults else ()
        self.looks = Conductor(executor)
        period = period_s(len(self._hosts))
        self._lookout = Lookout(executor.now, period, went_down=self._went_down, unreadable=self._unreadable)
        self._awaited: set[str] = set()
        self._live: dict[str, str] = {}  # change id to state
        self._guards: dict[str, frozenset[str]] = {}  # change id to the hosts of its guards
        self._before: dict[str, Counters] = {}
        self._forced_until_s = -inf
        self._reported_unreadable: set[str] = set()

    @property
    def looked(self) -> bool:
        """Whether everything was looked at once: from then on a link that is seen down has gone down."""
        return self._awaited <= self._lookout.looked

    def begin(self) -> None:
        """Start to look at everything: once before anything is altered, then again and again."""
        context, lookout = self._context, self._lookout
        watches = {}
        for host in self._hosts:
            ports = watched_ports(host, self._changes, context)
            if ports:
                watches[host] = watch_host(host, ports, lookout)
        for change in self._faults:
            if change.scope == "port" and not kind_of(change).closes and "/" not in change.component:
                watches[change.component] = watch_cable(change, context, lookout)
            if change.when.stop_above:
                before = partial(self._counters, change.change_id)
                watches[change.change_id] = watch_counters(change, context, lookout, before=before, stop=self._stop)
        self._awaited = set(watches)
        for watch in watches.values():
            self.looks.begin(watch)

    def entered(self, change: Change, state: str, fields: Mapping[str, Any]) -> None:
        """Note that a change entered another state; *fields* are those of the journal."""
        name = change.change_id
        if state == "intent":
            self._guards[name] = frozenset(one["host"] for one in fields["alterations"])
        if state in LIVE:
            self._live[name] = state
            if state == "in_force":
                self._before.setdefault(name, fields.get("counters", {}))
        elif self._live.pop(name, None) is not None and change.is_fault:
            self._forced_until_s = self._executor.now()

    def lost(self, change: Change, command: Command, error: ExecutorError) -> None:
        """Stop if a lost command was for a guard that cannot be reached: later commands would not reach it either."""
        needs_guard = change.change_id in self._live and guard_verb(command) in ("renew", "apply", "lift")
        if needs_guard and isinstance(error, HostUnreachable):
            self._stop(f"{change.change_id}: its guard cannot be reached: {error}")

    def due_s(self, change: Change, silence: Silence) -> float:
        """Return when a renewal is overdue, in executor's seconds; infinite when the change waits for none."""
        if change.change_id not in self._live or guard_verb(silence.command) != "renew":
            return inf
        return silence.since_s + self._context.settings.lease.ttl_s / RENEWED_WITHIN

    def not_renewed(self, change: Change, silence: Silence) -> None:
        """Stop because a change has waited too long for a renewal."""
        host = silence.command.host
        self._stop(f"{change.change_id}: its lease on {host} could not be renewed for half its time")

    def end(self, *, at_once: bool) -> None:
        """Look once more at everything, then end; *at_once* leaves out that last look."""
        if at_once:
            self.looks.drop()
        elif not self._lookout.ended:
            self._lookout.ended = True
            self.looks.wake()

    def _counters(self, change_id: str) -> Counters | None:
        """Return what the receivers counted before a change was in force; None if it is not in force."""
        return self._before.get(change_id) if change_id in self._live else None

    def _went_down(self, link: str, state: str, seen_s: float) -> None:
        live = [change for change in self._faults if change.change_id in self._live]
        if not live and self._forced_until_s < seen_s:
            return  # no change of ours was in force since the link was last seen up
        own = next((change for change in self._faults if change.component == link), None)
        if own is not None:
            self._stop(f"{link} went down ({state}): {own.change_id} was to make errors, not to take it away", seen_s)
        else:
            names = ", ".join(change.change_id for change in live or self._faults)
            self._stop(f"{link} went down ({state}), which is no target of {names}", seen_s)

    def _unreadable(self, host: str, error: FabricError) -> None:
        holds = [name for name in self._live if host in self._guards.get(name, ())]
        if holds and isinstance(error, ExecutorError):
            self._stop(f"{holds[0]}: the host of its guard does not answer: {error}")
        elif host not in self._reported_unreadable:
            self._reported_unreadable.add(host)
            self._note("unwatched", {"host": host, "reason": str(error)})

    def _stop(self, reason: str, since_s: float | None = None) -> None:
        if not self.reason:
            self.reason = reason
            self.since_s = self._executor.now() if since_s is None else since_s
            self._note("stop", {"reason": reason})


def guard_verb(command: Command) -> str:
    """Return the verb that a command gives to a guard; empty if the command is not for a guard."""
    argv = command.argv
    at = argv.index("fabric-guard") + 2 if "fabric-guard" in argv else len(argv)
    return argv[at] if at < len(argv) else ""


BAD = frozenset({"refused", "failed", "lost", "open"})
"""States that mean that a phase did not get the changes it asked for."""

RESCUE_SILENCE_S = 300.0
"""How long a rescue waits without hearing anything (a choice: longer than any step of an undo with its tries)."""

_LOOK_UP_S = 60.0
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Changing:
    """What a run needs to make changes. *owner* names the run to guards, *token* makes guard ids unique to it."""

    context: Context
    journal: Journal
    owner: str
    token: str
    allow: tuple[str, ...] = ()


class HeldChanges:
    """
    Holds the changes of a phase, none or more; driven by ``take`` and ``fire``. The hosts of its probes are watched.

    When a stop condition is met, all changes are taken back and recorded as failed, with the reason.
    """

    def __init__(self, plan: PhasePlan, changing: Changing, means: Means, *, phase_number: int) -> None:
        self._changing, self._executor = changing, means.executor
        self._directory, self._observer = means.directory, means.observer
        self._conductor = Conductor(means.executor)
        self._concurrency = Concurrency(changing.context, changing.allow)
        self._holds = [self._hold(change, f"{phase_number}.{number}") for number, change in enumerate(plan.changes)]
        self._routing: list[Hold] = []
        self._faults: list[Hold] = []
        self._stopped = self._heeded = False
        hosts = {host for probe in plan.planned for host in probe.hosts}
        self._stops = StopConditions(
            plan.changes, changing.context, hosts=hosts, executor=means.executor, note=self._note
        )
        self._held: dict[Procedure[None], Hold] = {}
        self._taken_back: dict[Hold, Mapping[str, Any]] = {}

    def _note(self, event: str, fields: Mapping[str, Any]) -> None:
        self._directory.events.append(event, self._executor.now(), fields)

    def _hold(self, change: Change, number: str) -> Hold:
        changing = self._changing
        hold: Hold

        def record(state: str, fields: Mapping[str, Any]) -> None:
            if state == "reverted":
                self._taken_back[hold] = fields
                if self._stops.reason:
                    state, fields = "failed", {**fields, "reason": self._stops.reason}
            elif state == "open" and self._stops.reason:
                fields = {**fields, "reason": f"{self._stops.reason}; {fields.get('reason', '')}"}
            self._write(hold, state, fields)

        hold = Hold(
            change,
            changing.context,
            owner=changing.owner,
            guard_id=f"{changing.token}.{number}",
            allow=changing.allow,
            record=record,
            clock=self._executor.now,
            concurrency=self._concurrency,
        )
        return hold

    def _write(self, hold: Hold, state: str, fields: Mapping[str, Any]) -> None:
        """
        Write a state to the journal, the history and the observer; what only an undo needs stays in the journal.
        """
        change = hold.change
        self._changing.journal.record(change.change_id, state, fields)
        at_s = fields.get("at_s", self._executor.now())
        logged = {key: fields[key] for key in ("reason", "counters") if key in fields}
        self._directory.events.append("change", at_s, {"change": change.change_id, "state": state, **logged})
        self._observer.change_state(change, state, str(fields.get("reason", "")))
        self._stops.entered(change, state, fields)

    @property
    def ready(self) -> bool:
        """
        Whether the first probe may begin: early changes are in force and later ones admitted, or something failed.

        Once everything is to be taken back, a fault that waited for a routing change is not begun any more.
        """
        if self._stopped or self._stops.reason or any(hold.state in BAD for hold in self._holds):
            return True
        return self._stops.looked and all(
            hold.ended or (hold.looked if hold.change.when.at_s is not None else hold.in_force) for hold in self._holds
        )

    @property
    def trouble(self) -> str:
        """Why this phase is not what was asked for; empty when it is."""
        if self._stops.reason:
            return self._stops.reason
        bad = (hold for hold in self._holds if hold.state in BAD)
        return next((f"{hold.change.change_id}: {hold.state}: {hold.reason}" for hold in bad), "")

    @property
    def busy(self) -> bool:
        """Whether a change is under way or in force, or a look has not ended."""
        return self._conductor.busy or self._stops.looks.busy

    @property
    def open(self) -> int:
        """How many changes are not known to be taken back."""
        return sum(hold.state != "waiting" and not hold.ended for hold in self._holds)

    @property
    def next_s(self) -> float:
        """When the next thing is due without a happening, in executor's seconds; infinite when nothing is."""
        due_s = min((due_s for due_s, _, _ in self._renewals()), default=inf)
        return min(self._conductor.next_s, self._stops.looks.next_s, due_s)

    def begin(self) -> None:
        """
        Begin the changes that must be in force before the first probe: routing first, then faults.

        Changes of the time line are checked now, while no probe of ours runs on the hosts.
        """
        before = [hold for hold in self._holds if hold.change.when.at_s is None]
        self._routing = [hold for hold in before if not hold.change.is_fault]
        self._faults = [hold for hold in before if hold.change.is_fault]
        self._stops.begin()
        for hold in self._holds:
            if hold not in self._faults:
                self._begin(hold)
        self._begin_faults()

    def _begin(self, hold: Hold) -> None:
        procedure = hold.procedure()
        self._held[procedure] = hold
        self._conductor.begin(procedure)

    def _begin_faults(self) -> None:
        watched = self._stops.looked and not self._stops.reason
        if self._faults and watched and all(hold.in_force for hold in self._routing):
            faults, self._faults = self._faults, []
            for hold in faults:
                self._begin(hold)

    def begin_time_line(self, now_s: float) -> None:
        """Start the time line: the first probe begins now, so the times of later changes count from here."""
        for hold in self._holds:
            if hold.change.when.at_s is not None:
                hold.due_s = now_s + hold.change.when.at_s
        self._conductor.wake()

    def take(self, happening: Happening) -> bool:
        """Advance by one happening; return False when it does not belong to a change."""
        asked = self._conductor.asked(happening.ticket)
        if asked is not None and isinstance(happening, Lost):
            self._stops.lost(self._held[asked[0]].change, asked[1], happening.error)
            self._heed_stop()  # before the procedure hears of it: it must take back, not try again
        taken = self._conductor.take(happening) or self._stops.looks.take(happening)
        self._heed_stop()
        self._begin_faults()
        return taken

    def fire(self) -> None:
        """Do what is due."""
        self._conductor.fire()
        self._stops.looks.fire()
        self._give_up_renewals()
        self._heed_stop()
        self._begin_faults()

    def _renewals(self) -> Iterator[tuple[float, Hold, Silence]]:
        """Yield when each unanswered renewal is given up, which ends every change."""
        for one in () if self._stopped else self._conductor.silences:
            hold = self._held[one.procedure]
            yield self._stops.due_s(hold.change, one), hold, one

    def _give_up_renewals(self) -> None:
        now_s = self._executor.now()
        for due_s, hold, one in self._renewals():
            if due_s <= now_s:
                self._stops.not_renewed(hold.change, one)
                self._heed_stop()
                self._conductor.give_up(one.procedure, CommandTimeout(one.command.host, now_s - one.since_s))
                self._conductor.wake()

    def _heed_stop(self) -> None:
        """
        Take everything back once a condition is met; mark faults failed that were taken back after the trouble began.
        """
        if not self._stops.reason or self._heeded:
            return
        self._heeded = True
        self.stop()
        self._stops.end(at_once=True)
        for hold, fields in self._taken_back.items():
            if hold.change.is_fault and fields.get("at_s", -inf) >= self._stops.since_s:
                self._write(hold, "failed", {**fields, "reason": self._stops.reason})

    def stop(self, *, hurry: bool = False) -> None:
        """Take everything back, in order; with *hurry* wait for nothing but the undo."""
        self._faults.clear()
        for hold in reversed(self._holds):
            hold.signal.stop = True
            hold.signal.hurry = hold.signal.hurry or hurry
        self._stops.end(at_once=hurry)
        if not self._stopped or hurry:
            self._stopped = True
            self._conductor.wake()

    def rescue(self, unheard: Iterable[Happening]) -> None:
        """
        Take everything back although the run itself is failing, whatever else is lost.

        *unheard* are happenings that nobody was told of. An error in one change keeps no other from its undo. Answers
        lost in the failure never come: after RESCUE_SILENCE_S without any happening the rescue gives up, and changes
        not seen taken back stay open.
        """
        waiting = list(unheard)
        heard_s = self._executor.now()
        self._persist(lambda: self.stop(hurry=True))
        while waiting or (self._conductor.busy and self._executor.now() < heard_s + RESCUE_SILENCE_S):
            for happening in waiting:
                self._persist(partial(self._conductor.take, happening))
            self._persist(self._conductor.fire)
            waiting = list(self._executor.wait(self._next_look_s())) if self._conductor.busy else []
            heard_s = self._executor.now() if waiting else heard_s

    def _next_look_s(self) -> float:
        """Return when a rescue looks next. It serves the conductor only, so it must not wait for what else is due."""
        now_s = self._executor.now()
        return max(now_s + _PAUSE_S, min(self._conductor.next_s, now_s + _LOOK_UP_S))

    def _persist(self, step: Callable[[], object]) -> None:
        """
        Repeat *step* as often as it raises: each error has killed one procedure, and the others still have to advance.
        """
        for _ in self._holds:
            try:
                step()
            except Exception:  # noqa: BLE001 - the error that ends the run is reported; this one follows from it
                continue
            return
