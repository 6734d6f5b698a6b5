"""
The life of one change, in the only order that is safe (design and evidence: docs/changes.md).

Look, refuse or go on -> journal the intent with its undo -> arm a lease on the target -> apply under that lease ->
read back -> journal -> renew while it holds -> undo -> read back what was seen before -> journal.

Whatever is raised on the way, what was armed is undone. What cannot be seen undone is said to be open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import Any

from fabric.changes.cycles import cycles
from fabric.changes.guard import Guard, LeaseGone
from fabric.changes.isolation import ends_of, give_back, isolated
from fabric.changes.kind import Context, Counters, Kind
from fabric.changes.procedure import Procedure, ask, driven, pause, whole_pause
from fabric.changes.rails import check_rails
from fabric.changes.taking_back import Armed, by_hand, revert
from fabric.errors import ExecutorError, FabricError, Refused, StoreError
from fabric.model.change import Alteration, Change, Lease

RENEWALS = 4
"""A lease is renewed so often within its time, so that three lost renewals in a row end nothing."""

RECOVER_S = 60.0
"""After an undo a link gets this long to carry traffic again (seconds; a sweep takes 10 to 20 on large fabrics)."""

Record = Callable[[str, Mapping[str, Any]], None]
"""Makes a state and its fields durable before it returns."""


@dataclass(slots=True)
class Signal:
    """What the holder is told from outside: *stop* ends the change in order, *hurry* leaves out what is not needed."""

    stop: bool = False
    hurry: bool = False


class Hold:
    """
    One change while it lives; ``procedure`` is to be carried out, ``state`` and ``reason`` say how far it is.

    *looked*: nothing refuses it. *due_s*: when a change of the time line is to be made, executor's seconds.
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
    ) -> None:
        self.change, self.signal = change, Signal()
        self.state, self.reason, self.looked = "waiting", "", False
        self.due_s: float | None = None
        self._kind, self._context, self._owner, self._guard_id = kind, context, owner, guard_id
        self._allow, self._record, self._clock = allow, record, clock
        self._guard = Guard(context.settings.guard_directory, sudo=context.settings.sudo)
        self._armed: list[Armed] = []
        self._armed_s = self._renewed_s = self._applied_s = 0.0
        self._isolated: frozenset[str] = frozenset()
        self._ends: frozenset[str] = frozenset()

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
            alterations = yield from self._look()
            yield from self._wait_for_its_time()
            if self.change.when.at_s is not None and not self.signal.stop:
                alterations = yield from self._kind.prepare(
                    self.change, self._context
                )  # what is there may have changed
            before = yield from self._kind.counters(self.change, self._context)
        except Refused as exc:
            self._enter("refused", str(exc))
            return
        except (FabricError, ValueError) as exc:
            self._enter("failed", f"nothing was altered: {exc}")
            return
        if self.signal.stop:
            self._enter("failed", "nothing was altered: the phase ended before its time came")
            return
        yield from self._alter(alterations, before)

    def _look(self) -> Procedure[tuple[Alteration, ...]]:
        """Everything that can refuse it, before the first probe of the phase runs."""
        alterations = yield from self._kind.prepare(self.change, self._context)
        yield from check_rails(self.change, alterations, self._context, self._allow)
        self._isolated = yield from isolated(self._context)
        self._ends = yield from ends_of(self.change, self._context)
        self.looked = True
        return alterations

    def _wait_for_its_time(self) -> Procedure[None]:
        """Of the time line: until ``due_s``, which is known once the first probe has begun."""
        while self.change.when.at_s is not None and not self.signal.stop:
            if self.due_s is not None and self._clock() >= self.due_s:
                return
            yield from pause(inf if self.due_s is None else self.due_s)

    def _alter(self, alterations: tuple[Alteration, ...], before: Counters) -> Procedure[None]:
        """From the intent to the end; whatever happens, what was armed is undone."""
        end, why = "reverted", ""
        try:
            self._intend(alterations)
            for armed in self._armed:
                yield from self._arm(armed)
            self._enter("armed")
            yield from self._live(before)
        except LeaseGone as exc:
            end, why = "lost", f"its guard took it back before its time: {exc}"
        except Exception as exc:  # noqa: BLE001 - also a defect of ours or a full disk must not leave a change behind
            end, why = "failed", str(exc) if isinstance(exc, FabricError) else f"{type(exc).__name__}: {exc}"
        yield from self._take_back(end, why)

    def _intend(self, alterations: tuple[Alteration, ...]) -> None:
        """Write down what may be done and how it is undone, before anything is."""
        self._armed = [Armed(f"{self._guard_id}.{number}", one) for number, one in enumerate(alterations)]
        self._enter(
            "intent",
            kind=self.change.kind,
            component=self.change.component,
            directory=self._guard.directory,
            sudo=self._guard.sudo,
            owner=self._owner,
            alterations=[{"guard_id": one.guard_id, **asdict(one.alteration)} for one in self._armed],
        )

    def _arm(self, armed: Armed) -> Procedure[None]:
        peer = yield from self._session_peer(armed.alteration.host)
        argv = self._guard.arm(armed.guard_id, owner=self._owner, lease=self.lease, peer=peer, what=armed.alteration)
        answer = yield from ask(armed.alteration.host, argv)
        self._guard.read_armed(answer)
        self._renewed_s = self._clock()
        if armed is self._armed[0]:
            self._armed_s = self._renewed_s

    def _session_peer(self, host: str) -> Procedure[str]:
        """The address that the SSH session on *host* comes from; empty where there is no such session."""
        answer = yield from ask(host, ("printenv", "SSH_CONNECTION"))
        return answer.stdout.partition(" ")[0].strip() if answer.exit_status == 0 else ""

    def _live(self, before: Counters) -> Procedure[None]:
        """In force for as long as asked: once, or again and again for a flap."""
        when = self.change.when
        for cycle in cycles(self.change, now_s=self._clock()):
            yield from self._wait(cycle.from_s)
            if self.signal.stop:
                return
            yield from self._apply()
            began_s = self._applied_s
            alterations = tuple(one.alteration for one in self._armed)
            yield from driven(self._kind.confirm(self.change, alterations, self._context), self._pause_and_renew)
            yield from self._pause_and_renew(self._clock())  # to see it may have taken long: is it held still?
            self._enter("in_force", counters=dict(before), at_s=began_s)
            until_s = cycle.until_s(began_s, for_s=when.for_s)
            yield from self._wait(until_s)
            if cycle.lifts and not self.signal.stop:
                yield from self._lift()
            if self.signal.stop:
                return

    def _apply(self) -> Procedure[None]:
        self._applied_s = self._clock()
        for armed in self._armed:
            answer = yield from ask(armed.alteration.host, self._guard.apply(armed.guard_id, armed.alteration.apply))
            self._guard.read_applied(answer)
            self._applied_s = answer.ended_s

    def _lift(self) -> Procedure[None]:
        """Undo for now; the guard stays."""
        lifted_s = self._clock()
        for armed in reversed(self._armed):
            answer = yield from ask(armed.alteration.host, self._guard.lift(armed.guard_id))
            self._guard.read_lifted(answer)
            lifted_s = answer.ended_s
        self._enter("lifted", at_s=lifted_s)

    def _wait(self, until_s: float) -> Procedure[None]:
        """Until then or until told to stop; renews the lease, and a device's own timer, on the way."""
        while not self.signal.stop and self._clock() < until_s:
            renew_s = self._renewed_s + self.lease.ttl_s / RENEWALS
            again_s = self._again_s()
            yield from pause(min(until_s, renew_s, again_s))
            if self.signal.stop:
                return
            if self._clock() >= renew_s:
                yield from self._renew()
            if self._clock() >= again_s and self.state == "in_force":
                yield from self._apply()

    def _pause_and_renew(self, until_s: float) -> Procedure[float]:
        """A pause on the way into force, which may be as long as a short lease."""
        while True:
            renew_s = self._renewed_s + self.lease.ttl_s / RENEWALS
            if self._clock() >= renew_s and not self.signal.stop:
                yield from self._renew()
                continue
            now_s = yield from pause(min(until_s, renew_s))
            if self.signal.stop or now_s >= until_s:
                return now_s

    def _again_s(self) -> float:
        """When the device's own timer must be set anew, well before it runs out."""
        timers = [one.alteration.timer_s for one in self._armed if one.alteration.timer_s is not None]
        return self._applied_s + min(timers) / 2 if timers and self.state == "in_force" else inf

    def _renew(self) -> Procedure[None]:
        """Renew every lease; a host that cannot be asked is asked again, until its lease must have run out."""
        try:
            for armed in self._armed:
                answer = yield from ask(armed.alteration.host, self._guard.renew(armed.guard_id, self.lease.ttl_s))
                self._guard.read_renewed(answer)
        except ExecutorError as exc:
            if self._clock() - self._renewed_s >= self.lease.ttl_s:
                raise LeaseGone(f"it could not be renewed: {exc}") from exc
            yield from pause(min(self._clock() + 1.0, self._renewed_s + self.lease.ttl_s))
            return
        self._renewed_s = self._clock()

    def _take_back(self, end: str, why: str) -> Procedure[None]:
        """Undo, read back, journal; with what cannot be seen undone it is open."""
        trouble = ""
        undone_s = self._clock()
        leased_s = min(self._renewed_s + self.lease.ttl_s, self._armed_s + self.lease.max_hold_s)
        if end == "reverted" and self.state == "in_force" and undone_s >= leased_s:
            end, why = "lost", "its guard took it back before its time: the lease had run out before anybody looked"
        for armed in reversed(self._armed):
            said = yield from revert(armed, self._guard, clock=self._clock)
            trouble = trouble or said
            undone_s = self._clock()
        if not trouble and not self.signal.hurry:
            trouble = yield from self._recovered()
        after = {} if trouble else (yield from self._counters_or_none())
        if trouble:
            text = f"{why}; {trouble}" if why else trouble
            self._end("open", f"{text}; {by_hand(self._armed)}", at_s=undone_s)
        else:
            self._end(end, why, counters=dict(after), at_s=undone_s)

    def _end(self, state: str, reason: str, **fields: Any) -> None:
        """The last state; true also where it cannot be written down any more (then ``fabric restore`` looks again)."""
        try:
            self._enter(state, reason, **fields)
        except StoreError as exc:
            self.state, self.reason = state, f"{reason}; {exc}" if reason else str(exc)

    def _recovered(self) -> Procedure[str]:
        """The link carries traffic again, and nobody keeps it isolated; returns what is wrong."""
        alterations = tuple(one.alteration for one in self._armed)
        try:
            yield from give_back(self._ends, self._isolated, self._context)
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
