"""Holds one change through its life, in the only order that is safe (design and evidence: docs/changes.md).

Look, refuse or go on -> journal the intent with its undo -> arm a lease on the target -> apply under that lease -> read
back -> journal -> renew while it holds -> undo -> read back what was seen before -> journal.

Whatever is raised on the way, everything armed is undone. A change that cannot be seen undone is recorded as open.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from fabric.changes.guard import (
    BY_GUARD,
    Guard,
    GuardCannotWrite,
    Guarded,
    GuardUnclear,
    LeaseGone,
    by_hand,
    revert,
)
from fabric.changes.kind import Context, Counters, kind_of
from fabric.changes.procedure import ASK_S, Procedure, ask, driven, pause, whole_pause
from fabric.changes.rails import HANDOVER_S, Concurrency, check_rails
from fabric.changes.restore import UnhealthyList, give_back, intent_fields, isolated_by_hand, list_before
from fabric.errors import ChangeError, ExecutorError, FabricError, NotInForce, Refused, StoreError, ToolError
from fabric.model.change import Alteration, Alterations, Change, Lease

RENEWALS = 4
"""Renewals within the time of a lease, so that three lost renewals in a row do not end it."""

POWER_LOSS = "power_loss"
"""Word of a scenario's ``allow`` for changes that nobody would undo after a power loss of this very machine."""

AGAIN_S = 1.0
"""Pause before a lost re-arming of a device's own timer is tried once more (seconds; choice)."""


@dataclass(slots=True)
class Signal:
    """Signals to a hold from outside: *stop* ends the change in order, *hurry* skips everything that is not needed."""

    stop: bool = False
    hurry: bool = False


class Leased:
    """
    The guards of one change and their lease.

    Times are the executor's seconds; *applied_s* is when the last step of an apply ended. *own_boot_id* is that of our
    own machine, on which nothing may be armed that outlives it and that nobody undoes afterwards.
    """

    def __init__(
        self, guard: Guard, lease: Lease, *, signal: Signal, clock: Callable[[], float], own_boot_id: str
    ) -> None:
        self.armed: list[Guarded] = []
        self.applied_s = 0.0
        self._guard, self._lease, self._signal, self._clock = guard, lease, signal, clock
        self._armed_s = self._renewed_s = 0.0
        self._own_boot_id = own_boot_id

    @property
    def alterations(self) -> Alterations:
        """The alterations, in the order in which they are applied."""
        return tuple(one.alteration for one in self.armed)

    @property
    def leased_until_s(self) -> float:
        """When the lease runs out if nobody renews it; infinite where nothing had to be altered."""
        if not self.armed:
            return inf
        return min(self._renewed_s + self._lease.ttl_s, self._armed_s + self._lease.max_hold_s)

    def name(self, guard_id: str, alterations: Sequence[Alteration]) -> None:
        """Give each alteration the name of its guard; nothing runs yet."""
        self.armed = [Guarded(self._guard, f"{guard_id}.{number}", one) for number, one in enumerate(alterations)]

    def arm(self, owner: str) -> Procedure[None]:
        """
        Arm every guard. If one cannot write there, it and those after it are dropped, so they are not undone later.
        """
        for number, armed in enumerate(self.armed):
            host = armed.alteration.host
            peer = yield from _session_peer(host)
            argv = self._guard.arm(armed.guard_id, owner=owner, lease=self._lease, peer=peer, what=armed.alteration)
            answer = yield from ask(host, argv)
            try:
                reported = self._guard.read_armed(answer)
            except GuardCannotWrite as exc:
                self.armed = self.armed[:number]
                raise GuardCannotWrite(f"nothing was altered: {host}: {exc}") from exc
            if armed.alteration.outlives and reported.boot_id == self._own_boot_id and reported.kept != "unit":
                raise Refused(
                    f"{host} is this machine, and its guard can leave no systemd unit here (kept: {reported.kept}): a "
                    "power loss would end the run and the guard, and the change would stay",
                    allow=POWER_LOSS,
                )
            self._renewed_s = self._clock()
            if number == 0:
                self._armed_s = self._renewed_s

    def apply(self, *, timeout_s: float = ASK_S) -> Procedure[None]:
        """Apply all alterations, in order."""
        self.applied_s = self._clock()
        for armed in self.armed:
            argv = self._guard.apply(armed.guard_id, armed.alteration.apply)
            answer = yield from ask(armed.alteration.host, argv, timeout_s=timeout_s)
            self._guard.read_applied(answer)
            self.applied_s = answer.ended_s

    def lift(self) -> Procedure[float]:
        """Undo for now, while the guards stay. Return when it was done."""
        lifted_s = self._clock()
        for armed in reversed(self.armed):
            answer = yield from ask(armed.alteration.host, self._guard.lift(armed.guard_id))
            self._guard.read_lifted(answer)
            lifted_s = answer.ended_s
        return lifted_s

    def wait(self, until_s: float, *, in_force: bool) -> Procedure[None]:
        """Wait until *until_s* or a stop; renew the lease and, when *in_force*, the devices' own timers meanwhile."""
        while not self._signal.stop and self._clock() < until_s:
            again_s = self.applied_s + self._timer_s / 2 if in_force else inf
            yield from self.pause_and_renew(min(until_s, again_s))
            if self._clock() >= again_s and not self._signal.stop:
                yield from self._apply_again()

    def pause_and_renew(self, until_s: float) -> Procedure[float]:
        """Pause until *until_s* or a stop, possibly longer than the lease, which is renewed. Return when it ended."""
        while True:
            renew_s = self._renewed_s + self._lease.ttl_s / RENEWALS
            if self._clock() >= renew_s and not self._signal.stop:
                yield from self._renew()
                continue
            now_s = yield from pause(min(until_s, renew_s))
            if self._signal.stop or now_s >= until_s:
                return now_s

    @property
    def _timer_s(self) -> float:
        """The shortest of the devices' own timers; they are set anew when half of it is over."""
        return min((one.timer_s for one in self.alterations if one.timer_s is not None), default=inf)

    def _apply_again(self) -> Procedure[None]:
        """
        Set the devices' own timers anew; if that is lost, try once more while they still run.

        Raises NotInForce when they ended before they were seen to be set.
        """
        ends_s = self.applied_s + self._timer_s
        try:
            yield from self.apply(timeout_s=min(ASK_S, max(AGAIN_S, self._timer_s / 4)))
        except LeaseGone:
            raise
        except (ExecutorError, ChangeError) as exc:
            now_s = yield from self.pause_and_renew(self._clock() + AGAIN_S)
            if self._signal.stop:
                return
            if now_s + AGAIN_S >= ends_s:
                raise NotInForce(f"it was not set anew before its own timer ended: {exc}") from exc
            yield from self.apply(timeout_s=min(ASK_S, ends_s - now_s))
        if self.applied_s >= ends_s:
            raise NotInForce("its own timer ended before it was set anew")

    def _renew(self) -> Procedure[None]:
        """Renew every lease; retry a host that cannot be asked, or cannot answer, until its lease is over."""
        try:
            for armed in self.armed:
                argv = self._guard.renew(armed.guard_id, self._lease.ttl_s)
                self._guard.read_renewed((yield from ask(armed.alteration.host, argv)))
        except (ExecutorError, GuardUnclear, GuardCannotWrite) as exc:
            if self._clock() - self._renewed_s >= self._lease.ttl_s:
                raise LeaseGone(f"it could not be renewed: {exc}") from exc
            yield from pause(min(self._clock() + 1.0, self._renewed_s + self._lease.ttl_s))
            return
        self._renewed_s = self._clock()


def _session_peer(host: str) -> Procedure[str]:
    """Return the address that the SSH session on *host* comes from; empty without such a session."""
    answer = yield from ask(host, ("printenv", "SSH_CONNECTION"))
    return answer.stdout.partition(" ")[0].strip() if answer.exit_status == 0 else ""


_HANDOVER_LOOK_S = 1.0

RECOVER_S = 60.0
"""Time for a link to carry traffic again after an undo (seconds; a sweep takes 10 to 20 on large fabrics)."""

Record = Callable[[str, Mapping[str, Any]], None]
"""Makes a state and its fields durable before it returns."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """
    A change that nothing refuses: what to do, and how its host and UFM looked before.

    *other_paths*: other RNICs of its host that were seen active; None where it needs none.
    """

    alterations: Alterations
    other_paths: frozenset[str] | None
    unhealthy: UnhealthyList | None


class Hold:
    """
    One change and its state; carry out ``procedure``, and ``state`` and ``reason`` tell how far it is.

    *looked*: it was looked at, and nothing refuses it. *due_s*: when a change of the time line is due, executor's
    seconds; infinite until the first probe has begun. *concurrency* knows the other changes of the phase; without it
    there are none.
    """

    def __init__(
        self,
        change: Change,
        context: Context,
        *,
        owner: str,
        guard_id: str,
        allow: tuple[str, ...],
        record: Record,
        clock: Callable[[], float],
        concurrency: Concurrency | None = None,
    ) -> None:
        self.change, self.signal = change, Signal()
        self.state, self.reason, self.looked = "waiting", "", False
        self.due_s = inf
        self._kind, self._context, self._owner, self._guard_id = kind_of(change), context, owner, guard_id
        self._allow, self._record, self._clock = allow, record, clock
        self._concurrency = concurrency or Concurrency(context, allow)
        guard = Guard(context.settings.guard_directory, sudo=context.settings.sudo)
        own = "" if POWER_LOSS in allow else context.own_boot_id
        self._leased = Leased(guard, context.settings.lease, signal=self.signal, clock=clock, own_boot_id=own)

    @property
    def in_force(self) -> bool:
        """Whether it was read back and holds (also between the down times of a flap)."""
        return self.state in ("in_force", "lifted")

    @property
    def ended(self) -> bool:
        """Whether its last state is reached."""
        return self.state in ("reverted", "refused", "failed", "lost", "open")

    def procedure(self) -> Procedure[None]:
        """Carry the change through its whole life."""
        try:
            admitted = yield from self._look(ours_run=False)
            self._concurrency.join(self.change, admitted.other_paths)
            self.looked = True
            yield from self._wait_for_its_time()
            if self.change.when.at_s is not None and not self.signal.stop:
                yield from self._begin(admitted)  # late changes end first: only then is there a final state to see
                admitted = yield from self._look(ours_run=True)
            yield from self._begin(admitted)
            before = yield from self._kind.counters(self.change, self._context)
            if self.signal.stop:
                raise ChangeError("the phase ended before its time came")
        except Refused as exc:
            self._enter("refused", str(exc))
        except (FabricError, ValueError) as exc:
            self._enter("failed", f"nothing was altered: {exc}")
        else:
            yield from self._alter(admitted, before)
        if self.state != "open":
            self._concurrency.leave(self.change)

    def _look(self, *, ours_run: bool) -> Procedure[Admitted]:
        """
        Check everything that can refuse it: before the first probe, and again when it is due.

        What was seen the first time may have changed since. With *ours_run*, processes of our own probes do not count
        as somebody's job.
        """
        alterations = yield from self._kind.prepare(self.change, self._context)
        paths = yield from check_rails(self.change, alterations, self._context, self._allow, ours_run=ours_run)
        return Admitted(alterations, paths, (yield from list_before(self.change, self._context)))

    def _begin(self, admitted: Admitted) -> Procedure[None]:
        """
        Take its place among the live changes; wait up to HANDOVER_S for changes that are late to be taken back.

        The plan has room for all (or the look would have refused), so whatever is in the way should be gone already.
        Raises Refused when it is not.
        """
        until_s = self._clock() + HANDOVER_S
        while not self.signal.stop:
            wrong = self._concurrency.begin(self.change, admitted.other_paths)
            if not wrong:
                return
            if self._clock() >= until_s:
                raise Refused(wrong)
            yield from pause(min(self._clock() + _HANDOVER_LOOK_S, until_s))

    def _wait_for_its_time(self) -> Procedure[None]:
        """Wait until ``due_s``, which is known once the first probe has begun; returns at once for other changes."""
        while self.change.when.at_s is not None and not self.signal.stop and self._clock() < self.due_s:
            yield from pause(self.due_s)

    def _alter(self, admitted: Admitted, before: Counters) -> Procedure[None]:
        """Go from the intent to the end; whatever happens, what was armed is undone."""
        end, why = "reverted", ""
        try:
            self._intend(admitted)
            yield from self._leased.arm(self._owner)
            self._enter("armed")
            why = yield from self._live(before)
        except LeaseGone as exc:
            end, why = "lost", str(exc)
        except Exception as exc:  # noqa: BLE001 - even a defect of ours or a full disk must not leave a change behind
            end, why = "failed", str(exc) if isinstance(exc, FabricError) else f"{type(exc).__name__}: {exc}"
        yield from self._take_back(end, why, admitted.unhealthy)

    def _intend(self, admitted: Admitted) -> None:
        """Record what may be done and how to undo it, before anything is done."""
        self._leased.name(self._guard_id, admitted.alterations)
        self._enter(
            "intent",
            component=self.change.component,
            asked=self._kind.model_dump(mode="json", exclude_none=True),
            owner=self._owner,
            **intent_fields(self.change.kind, self._leased.armed, admitted.unhealthy),
        )

    def _live(self, before: Counters) -> Procedure[str]:
        """
        Keep the change in force for as long as asked: once, or repeatedly for a flap.

        Returns the text for a flap that ended before its last time; else empty.
        """
        leased, cut_off = self._leased, ""
        for number, cycle in enumerate(self._kind.cycles(self.change.component, now_s=self._clock())):
            cut_off = self._kind.cut_off(after=number)
            yield from leased.wait(cycle.from_s, in_force=False)
            if self.signal.stop:
                break
            yield from leased.apply()
            began_s = leased.applied_s
            yield from driven(
                self._kind.confirm(self.change, leased.alterations, self._context), leased.pause_and_renew
            )
            yield from leased.pause_and_renew(self._clock())  # confirming may have taken long: check the lease
            self._enter("in_force", counters=dict(before), at_s=began_s)
            yield from leased.wait(began_s + cycle.lasts_s, in_force=True)
            yield from self._look_once_more()
            if cycle.lifts and not self.signal.stop:
                self._enter("lifted", at_s=(yield from leased.lift()))
                cut_off = self._kind.cut_off(after=number + 1)
            if self.signal.stop:
                break
        return cut_off

    def _look_once_more(self) -> Procedure[None]:
        """
        Look before the undo; raises NotInForce when somebody else has taken the change back meanwhile.

        A failed read proves nothing, and the undo does not wait for it; an expired lease is reported elsewhere.
        """
        look = self._kind.still_in_force(self.change, self._leased.alterations, self._context)
        try:
            yield from driven(look, pause, until=self._hurried)
        except (ExecutorError, ToolError):
            return
        except NotInForce as exc:
            if self._clock() < self._leased.leased_until_s:
                raise NotInForce(f"was not in force at the end: {exc}") from exc

    def _take_back(self, end: str, why: str, list_was: UnhealthyList | None) -> Procedure[None]:
        """Undo, read back and journal; the change is open if it is not seen undone."""
        trouble, hand, outcomes = "", "", set[str]()
        not_undone: list[Guarded] = []
        undone_s = self._clock()
        if end == "reverted" and self.state == "in_force" and undone_s >= self._leased.leased_until_s:
            end, why = "lost", "the lease had run out before anybody looked"
        for armed in reversed(self._leased.armed):
            outcome, certain = yield from revert(armed)
            outcomes.add(outcome)
            if not certain:
                trouble = trouble or f"{armed.alteration.host}: {outcome}"
                not_undone.insert(0, armed)
            undone_s = self._clock()
        if end == "lost":
            by_guard = outcomes == {BY_GUARD}
            why = f"{'its guard took it back' if by_guard else 'its lease ended'} before its time: {why}"
        if not trouble and list_was is not None:
            _, isolated = yield from give_back(list_was)
            if isolated:
                trouble = f"undone, but UFM may keep a port isolated: {isolated}"
                hand = isolated_by_hand(list_was)
        if not trouble:
            trouble = yield from self._recovered()
        if trouble:
            text = f"{why}; {trouble}" if why else trouble
            hand = hand or by_hand(not_undone or self._leased.armed)
            self._end("open", f"{hand}; why: {text}", at_s=undone_s)  # the steps come first: reports cut long texts
            return
        after: Counters = {}
        with suppress(FabricError):  # counters that cannot be read at the end are left out: the change itself is undone
            after = yield from self._kind.counters(self.change, self._context)
        self._end(end, why, counters=dict(after), at_s=undone_s)

    def _end(self, state: str, reason: str, **fields: Any) -> None:
        """Enter the last state; it holds even if it cannot be written down (``fabric restore`` then looks again)."""
        try:
            self._enter(state, reason, **fields)
        except StoreError as exc:
            self.state, self.reason = state, f"{reason}; {exc}" if reason else str(exc)

    def _recovered(self) -> Procedure[str]:
        """
        Wait until the link carries traffic again; return what is wrong.

        Giving a port back is part of the undo and is done in a hurry, too; this wait is cut short then.
        """
        try:
            until_s = self._clock() + RECOVER_S
            waiting = self._kind.recovered(self.change, self._leased.alterations, self._context, until_s)
            yield from driven(waiting, partial(whole_pause, unless=self._hurried), until=self._hurried)
        except FabricError as exc:
            return f"undone, but: {exc}"
        return ""

    def _hurried(self) -> bool:
        return self.signal.hurry

    def _enter(self, state: str, reason: str = "", **fields: Any) -> None:
        """Enter a state: first make it durable, then set it."""
        self._record(state, {**({"reason": reason} if reason else {}), **fields})
        self.state, self.reason = state, reason
