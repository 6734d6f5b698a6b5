"""The changes of one phase: begun before its probes or on its time line, and all taken back before it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fabric.changes.hold import Hold
from fabric.changes.kind import Context
from fabric.changes.kinds import KINDS
from fabric.engine.conductor import Conductor
from fabric.model.change import Change
from fabric.ports import Executor, Happening
from fabric.store.journal import Journal
from fabric.store.run_directory import RunDirectory

BAD = frozenset({"refused", "failed", "lost", "open"})
"""States after which a phase is not what was asked for."""


_LOOK_UP_S = 60.0


class ChangeObserver(Protocol):
    """Somebody who is told what becomes of changes."""

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """A change came into force, was taken back, was refused and so on; states as in ChangeResult and its events."""
        ...


@dataclass(frozen=True, slots=True)
class Changing:
    """What a run needs to make changes. *owner* names the run to guards, *token* makes their names its own."""

    context: Context
    journal: Journal
    owner: str
    token: str
    allow: tuple[str, ...] = ()


class HeldChanges:
    """Holds the changes of a phase; moved on by ``take`` and ``fire``."""

    def __init__(
        self,
        changes: tuple[Change, ...],
        changing: Changing,
        *,
        phase_number: int,
        executor: Executor,
        directory: RunDirectory,
        observer: ChangeObserver,
    ) -> None:
        self._changing, self._executor, self._directory, self._observer = changing, executor, directory, observer
        self._conductor = Conductor(executor)
        self._holds = [self._hold(change, f"{phase_number}.{number}") for number, change in enumerate(changes)]
        self._routing: list[Hold] = []
        self._faults: list[Hold] = []
        self._stopped = False

    def _hold(self, change: Change, number: str) -> Hold:
        changing = self._changing
        guard_id = f"{changing.token}.{number}"
        hold: Hold

        def record(state: str, fields: Mapping[str, Any]) -> None:
            changing.journal.record(change.change_id, state, fields)
            self._tell(hold, state, fields)

        hold = Hold(
            change,
            KINDS[change.kind],
            changing.context,
            owner=changing.owner,
            guard_id=guard_id,
            allow=changing.allow,
            record=record,
            clock=self._executor.now,
        )
        return hold

    def _tell(self, hold: Hold, state: str, fields: Mapping[str, Any]) -> None:
        """The run's history and whoever watches; what only an undo needs stays in the journal."""
        at_s = fields.get("at_s", self._executor.now())
        told = {key: fields[key] for key in ("reason", "counters") if key in fields}
        self._directory.events.append("change", at_s, {"change": hold.change.change_id, "state": state, **told})
        self._observer.change_state(hold.change, state, str(fields.get("reason", "")))

    @property
    def ready(self) -> bool:
        """What is to be in force before the first probe is, and the rest may be made; or something never will."""
        if any(hold.state in BAD for hold in self._holds):
            return True
        return all(
            hold.ended or (hold.looked if hold.change.when.at_s is not None else hold.in_force) for hold in self._holds
        )

    @property
    def trouble(self) -> str:
        """Why this phase is not what was asked for; empty when it is."""
        bad = (hold for hold in self._holds if hold.state in BAD)
        return next((f"{hold.change.change_id}: {hold.state}: {hold.reason}" for hold in bad), "")

    @property
    def busy(self) -> bool:
        """Some change is under way or in force."""
        return self._conductor.busy

    @property
    def open(self) -> int:
        """How many changes are not known to be taken back."""
        return sum(hold.state != "waiting" and not hold.ended for hold in self._holds)

    @property
    def next_s(self) -> float:
        """When the next thing is to be done, of itself; infinite when nothing is."""
        return self._conductor.next_s

    def begin(self) -> None:
        """
        Begin what is to be in force before the first probe: routing first, faults once it is in force.

        What comes later is looked at now, while nothing of ours runs on the hosts.
        """
        before = [hold for hold in self._holds if hold.change.when.at_s is None]
        self._routing = [hold for hold in before if not hold.change.is_fault]
        self._faults = [hold for hold in before if hold.change.is_fault]
        for hold in self._holds:
            if hold not in self._faults:
                self._conductor.begin(hold.procedure())
        self._begin_faults()

    def _begin_faults(self) -> None:
        if self._faults and all(hold.in_force for hold in self._routing):
            faults, self._faults = self._faults, []
            for hold in faults:
                self._conductor.begin(hold.procedure())

    def begin_time_line(self, now_s: float) -> None:
        """The first probe begins now: from now on the rest is due in its time."""
        for hold in self._holds:
            if hold.change.when.at_s is not None:
                hold.due_s = now_s + hold.change.when.at_s
        self._conductor.wake()

    def take(self, happening: Happening) -> bool:
        """Move on by one happening; False when it is not of a change."""
        taken = self._conductor.take(happening)
        self._begin_faults()
        return taken

    def fire(self) -> None:
        """Do what is due."""
        self._conductor.fire()
        self._begin_faults()

    def stop(self, *, hurry: bool = False) -> None:
        """Take everything back, in order; with *hurry* nothing else is waited for."""
        self._faults.clear()
        for hold in reversed(self._holds):
            hold.signal.stop = True
            hold.signal.hurry = hold.signal.hurry or hurry
        if not self._stopped or hurry:
            self._stopped = True
            self._conductor.wake()

    def rescue(self, unheard: Iterable[Happening] = ()) -> None:
        """
        The run itself is failing: take everything back all the same, whatever else is lost.

        *unheard* has happened and nobody was told of it. What is wrong with one change keeps no other from its undo.
        """
        waiting = list(unheard)
        self._persist(lambda: self.stop(hurry=True))
        while self._conductor.busy or waiting:
            for happening in waiting:
                self._persist(partial(self._conductor.take, happening))
            self._persist(self._conductor.fire)
            waiting = list(self._executor.wait(self._next_look_s())) if self._conductor.busy else []

    def _next_look_s(self) -> float:
        return min(self.next_s, self._executor.now() + _LOOK_UP_S)

    def _persist(self, step: Callable[[], object]) -> None:
        """Do it as often as it raises: each time one procedure has died of it, and the others are still to be moved."""
        for _ in self._holds:
            try:
                step()
            except Exception:  # noqa: BLE001 - the error that the run dies of is told; this one comes of it
                continue
            return
