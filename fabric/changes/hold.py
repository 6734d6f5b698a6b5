"""
The life of one change, in the only order that is safe (design and evidence: docs/changes.md).

Look, refuse or go on -> journal the intent with its undo -> arm a lease on the target -> apply under that lease ->
read back -> journal -> renew while it holds -> undo -> read back what was seen before -> journal.

Whatever is raised on the way, what was armed is undone. What cannot be seen undone is said to be open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from math import inf
from typing import Any

from fabric.changes.admission import Admission, Admitted
from fabric.changes.company import Company
from fabric.changes.cycles import cut_off, cycles
from fabric.changes.guard import Guard, LeaseGone
from fabric.changes.isolation import Unhealthy, as_entry, given_back
from fabric.changes.isolation import by_hand as isolated_by_hand
from fabric.changes.kind import Context, Counters, Kind
from fabric.changes.leased import POWER_LOSS, Leased, Signal
from fabric.changes.procedure import Procedure, driven, pause, whole_pause
from fabric.changes.taking_back import Armed, by_hand, revert
from fabric.errors import ExecutorError, FabricError, NotInForce, Refused, StoreError, ToolError
from fabric.model.change import Change, Lease

RECOVER_S = 60.0
"""After an undo a link gets this long to carry traffic again (seconds; a sweep takes 10 to 20 on large fabrics)."""

Record = Callable[[str, Mapping[str, Any]], None]
"""Makes a state and its fields durable before it returns."""


class Hold:
    """
    One change while it lives; ``procedure`` is to be carried out, ``state`` and ``reason`` say how far it is.

    *looked*: nothing refuses it. *due_s*: when a change of the time line is to be made, executor's seconds. *company*
    knows the other changes of the phase; without one it is alone.
    """

    def __init__(
        self,
        change: Change,
        kind: Kind,
        context: Context,
        *,
        owner: str,
        guard_id: str,
        allow: tuple[str, ...],
        record: Record,
        clock: Callable[[], float],
        company: Company | None = None,
    ) -> None:
        self.change, self.signal = change, Signal()
        self.state, self.reason, self.looked = "waiting", "", False
        self.due_s: float | None = None
        self._kind, self._context, self._owner, self._guard_id = kind, context, owner, guard_id
        self._record, self._clock = record, clock
        self._guard = Guard(context.settings.guard_directory, sudo=context.settings.sudo)
        self._company = company or Company(context, allow)
        self._admission = Admission(change, kind, context, allow, self._company)
        own = "" if POWER_LOSS in allow else context.own_boot_id
        self._leased = Leased(self._guard, self.lease, signal=self.signal, clock=clock, own_boot_id=own)
        self._unhealthy: Unhealthy | None = None
        self._cut_off = ""

    @property
    def lease(self) -> Lease:
        """How long the change outlives us."""
        return self._context.settings.lease

    @property
    def in_force(self) -> bool:
        """It has been read back and holds (between the down times of a flap as well)."""
        return self.state in ("in_force", "lifted")

    @property
    def ended(self) -> bool:
        """Nothing more will come of it."""
        return self.state in ("reverted", "refused", "failed", "lost", "open")

    def procedure(self) -> Procedure[None]:
        """The whole life."""
        try:
            admitted = yield from self._admission.look()
            self.looked = True
            yield from self._wait_for_its_time()
            if self.change.when.at_s is not None and not self.signal.stop:
                yield from self._begin(admitted)  # waits for those that are late: only then is there what will be
                admitted = yield from self._admission.look_again()
            yield from self._begin(admitted)
            before = yield from self._kind.counters(self.change, self._context)
        except Refused as exc:
            self._company.leave(self.change)
            self._enter("refused", str(exc))
            return
        except (FabricError, ValueError) as exc:
            self._company.leave(self.change)
            self._enter("failed", f"nothing was altered: {exc}")
            return
        if self.signal.stop:
            self._company.leave(self.change)
            self._enter("failed", "nothing was altered: the phase ended before its time came")
            return
        yield from self._alter(admitted, before)
        if self.state != "open":
            self._company.leave(self.change)

    def _begin(self, admitted: Admitted) -> Procedure[None]:
        """Take its place among the live ones; a second time with what was seen since."""
        yield from self._admission.begin(admitted, clock=self._clock, stopped=lambda: self.signal.stop)

    def _wait_for_its_time(self) -> Procedure[None]:
        """Of the time line: until ``due_s``, which is known once the first probe has begun."""
        while self.change.when.at_s is not None and not self.signal.stop:
            if self.due_s is not None and self._clock() >= self.due_s:
                return
            yield from pause(inf if self.due_s is None else self.due_s)

    def _alter(self, admitted: Admitted, before: Counters) -> Procedure[None]:
        """From the intent to the end; whatever happens, what was armed is undone."""
        end, why = "reverted", ""
        try:
            self._intend(admitted)
            yield from self._leased.arm(self._owner)
            self._enter("armed")
            yield from self._live(before)
            why = self._cut_off
        except LeaseGone as exc:
            end, why = "lost", f"its guard took it back before its time: {exc}"
        except Exception as exc:  # noqa: BLE001 - also a defect of ours or a full disk must not leave a change behind
            end, why = "failed", str(exc) if isinstance(exc, FabricError) else f"{type(exc).__name__}: {exc}"
        yield from self._take_back(end, why)

    def _intend(self, admitted: Admitted) -> None:
        """Write down what may be done and how it is undone, before anything is."""
        self._unhealthy = admitted.unhealthy
        self._leased.name(self._guard_id, admitted.alterations)
        self._enter(
            "intent",
            kind=self.change.kind,
            component=self.change.component,
            directory=self._guard.directory,
            sudo=self._guard.sudo,
            owner=self._owner,
            alterations=[{"guard_id": one.guard_id, **asdict(one.alteration)} for one in self._leased.armed],
            **as_entry(self._unhealthy),
        )

    def _live(self, before: Counters) -> Procedure[None]:
        """In force for as long as asked: once, or again and again for a flap."""
        leased, when = self._leased, self.change.when
        for number, cycle in enumerate(cycles(self.change, now_s=self._clock())):
            self._cut_off = cut_off(self.change, after=number)
            yield from leased.wait(cycle.from_s, in_force=False)
            if self.signal.stop:
                return
            yield from leased.apply()
            began_s = leased.applied_s
            yield from driven(
                self._kind.confirm(self.change, leased.alterations, self._context), leased.pause_and_renew
            )
            yield from leased.pause_and_renew(self._clock())  # to see it may have taken long: is it held still?
            self._enter("in_force", counters=dict(before), at_s=began_s)
            yield from leased.wait(cycle.until_s(began_s, for_s=when.for_s), in_force=True)
            yield from self._look_once_more()
            if cycle.lifts and not self.signal.stop:
                self._enter("lifted", at_s=(yield from leased.lift()))
                self._cut_off = cut_off(self.change, after=number + 1)
            if self.signal.stop:
                return

    def _look_once_more(self) -> Procedure[None]:
        """
        Before the undo: raises NotInForce where somebody else has taken it back meanwhile.

        What cannot be read says nothing, and the undo is not to wait for it; a lease that has run out is told as such.
        """
        look = self._kind.still_in_force(self.change, self._leased.alterations, self._context)
        try:
            yield from driven(look, pause, until=self._hurried)
        except (ExecutorError, ToolError):
            return
        except NotInForce as exc:
            if self._clock() < self._leased.leased_until_s:
                raise NotInForce(f"was not in force at the end: {exc}") from exc

    def _take_back(self, end: str, why: str) -> Procedure[None]:
        """Undo, read back, journal; with what cannot be seen undone it is open."""
        trouble, hand = "", ""
        not_undone: list[Armed] = []
        undone_s = self._clock()
        if end == "reverted" and self.state == "in_force" and undone_s >= self._leased.leased_until_s:
            end, why = "lost", "its guard took it back before its time: the lease had run out before anybody looked"
        for armed in reversed(self._leased.armed):
            said = yield from revert(armed, self._guard, clock=self._clock)
            trouble = trouble or said
            not_undone[:0] = [armed] if said else []
            undone_s = self._clock()
        if not trouble:
            trouble = yield from given_back(self._unhealthy, clock=self._clock)
            hand = isolated_by_hand(self._unhealthy) if trouble and self._unhealthy else ""
        if not trouble:
            trouble = yield from self._recovered()
        after = {} if trouble else (yield from self._counters_or_none())
        if trouble:
            text = f"{why}; {trouble}" if why else trouble
            hand = hand or by_hand(not_undone or self._leased.armed)
            self._end("open", f"{hand}; why: {text}", at_s=undone_s)  # what is to be done first: reports cut long texts
        else:
            self._end(end, why, counters=dict(after), at_s=undone_s)

    def _end(self, state: str, reason: str, **fields: Any) -> None:
        """The last state; true also where it cannot be written down any more (then ``fabric restore`` looks again)."""
        try:
            self._enter(state, reason, **fields)
        except StoreError as exc:
            self.state, self.reason = state, f"{reason}; {exc}" if reason else str(exc)

    def _recovered(self) -> Procedure[str]:
        """
        It carries traffic again; returns what is wrong.

        To give a port back is a part of the undo and is done in a hurry too; this wait is not.
        """
        alterations = self._leased.alterations
        try:
            until_s = self._clock() + RECOVER_S
            waiting = self._kind.recovered(self.change, alterations, self._context, until_s)
            yield from driven(waiting, partial(whole_pause, unless=self._hurried), until=self._hurried)
        except FabricError as exc:
            return f"undone, but: {exc}"
        return ""

    def _hurried(self) -> bool:
        return self.signal.hurry

    def _counters_or_none(self) -> Procedure[Counters]:
        """What cannot be read at the end is left out: the change itself is undone."""
        try:
            return (yield from self._kind.counters(self.change, self._context))
        except FabricError:
            return {}

    def _enter(self, state: str, reason: str = "", **fields: Any) -> None:
        """A new state: durable first, then true."""
        self._record(state, {**({"reason": reason} if reason else {}), **fields})
        self.state, self.reason = state, reason
