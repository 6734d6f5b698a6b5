"""The alterations of one change under their leases: armed, applied, renewed, lifted, applied anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from fabric.changes.guard import Guard, GuardCannotWrite, GuardUnclear, LeaseGone
from fabric.changes.procedure import ASK_S, Procedure, ask, pause
from fabric.changes.undo import Guarded
from fabric.errors import ChangeError, ExecutorError, NotInForce, Refused
from fabric.model.change import Alteration, Lease

RENEWALS = 4
"""A lease is renewed so often within its time, so that three lost renewals in a row end nothing."""

POWER_LOSS = "power_loss"
"""Word of a scenario's ``allow``: what nobody would undo after a power loss of this very machine."""

AGAIN_S = 1.0
"""So long after a lost re-arming of a device's own timer it is tried once more (seconds; choice)."""


@dataclass(slots=True)
class Signal:
    """What the holder is told from outside: *stop* ends the change in order, *hurry* leaves out what is not needed."""

    stop: bool = False
    hurry: bool = False


class Leased:
    """
    Times are the executor's seconds; *applied_s* is when the last step of an apply ended.

    *own_boot_id*: of our own machine, where nothing may be armed that outlives it and that nobody undoes afterwards.
    """

    def __init__(
        self, guard: Guard, lease: Lease, *, signal: Signal, clock: Callable[[], float], own_boot_id: str = ""
    ) -> None:
        self.armed: list[Guarded] = []
        self.applied_s = 0.0
        self._guard, self._lease, self._signal, self._clock = guard, lease, signal, clock
        self._armed_s = self._renewed_s = 0.0
        self._own_boot_id = own_boot_id

    @property
    def alterations(self) -> tuple[Alteration, ...]:
        """What is done."""
        return tuple(one.alteration for one in self.armed)

    @property
    def leased_until_s(self) -> float:
        """When the lease has run out, if nobody renews it any more."""
        return min(self._renewed_s + self._lease.ttl_s, self._armed_s + self._lease.max_hold_s)

    def name(self, guard_id: str, alterations: Sequence[Alteration]) -> None:
        """Give each its guard's name; nothing is done yet."""
        self.armed = [Guarded(self._guard, f"{guard_id}.{number}", one) for number, one in enumerate(alterations)]

    def arm(self, owner: str) -> Procedure[None]:
        """Arm every guard."""
        for number, armed in enumerate(self.armed):
            host = armed.alteration.host
            peer = yield from _session_peer(host)
            argv = self._guard.arm(armed.guard_id, owner=owner, lease=self._lease, peer=peer, what=armed.alteration)
            told = self._guard.read_armed((yield from ask(host, argv)))
            if armed.alteration.outlives and told.boot_id == self._own_boot_id and told.kept != "unit":
                raise Refused(
                    f"{host} is this machine, and its guard can leave no systemd unit here (kept: {told.kept}): a "
                    "power loss would end the run and the guard, and the change would stay",
                    allow=POWER_LOSS,
                )
            self._renewed_s = self._clock()
            if number == 0:
                self._armed_s = self._renewed_s

    def apply(self, *, timeout_s: float = ASK_S) -> Procedure[None]:
        """Apply all, in order."""
        self.applied_s = self._clock()
        for armed in self.armed:
            argv = self._guard.apply(armed.guard_id, armed.alteration.apply)
            answer = yield from ask(armed.alteration.host, argv, timeout_s=timeout_s)
            self._guard.read_applied(answer)
            self.applied_s = answer.ended_s

    def lift(self) -> Procedure[float]:
        """Undo for now; the guards stay. Returns when."""
        lifted_s = self._clock()
        for armed in reversed(self.armed):
            answer = yield from ask(armed.alteration.host, self._guard.lift(armed.guard_id))
            self._guard.read_lifted(answer)
            lifted_s = answer.ended_s
        return lifted_s

    def wait(self, until_s: float, *, in_force: bool) -> Procedure[None]:
        """Until then or until told to stop; renews the lease and, *in_force*, a device's own timer on the way."""
        while not self._signal.stop and self._clock() < until_s:
            renew_s = self._renew_s
            again_s = self.applied_s + self._timer_s / 2 if in_force else inf
            yield from pause(min(until_s, renew_s, again_s))
            if self._signal.stop:
                return
            if self._clock() >= renew_s:
                yield from self._renew()
            if self._clock() >= again_s:
                yield from self._apply_again()

    def pause_and_renew(self, until_s: float) -> Procedure[float]:
        """A pause on the way into force, which may be as long as a short lease."""
        while True:
            renew_s = self._renew_s
            if self._clock() >= renew_s and not self._signal.stop:
                yield from self._renew()
                continue
            now_s = yield from pause(min(until_s, renew_s))
            if self._signal.stop or now_s >= until_s:
                return now_s

    @property
    def _renew_s(self) -> float:
        return self._renewed_s + self._lease.ttl_s / RENEWALS

    @property
    def _timer_s(self) -> float:
        """The shortest of the devices' own timers, which are set anew when half of it is over."""
        return min((one.timer_s for one in self.alterations if one.timer_s is not None), default=inf)

    def _apply_again(self) -> Procedure[None]:
        """
        Set the devices' own timers anew; when that is lost, once more within the time that they still have.

        Raises NotInForce when they ended before they were seen set.
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
        """Renew every lease; a host that cannot be asked, or cannot answer, is asked again until its lease is over."""
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
    """The address that the SSH session on *host* comes from; empty where there is no such session."""
    answer = yield from ask(host, ("printenv", "SSH_CONNECTION"))
    return answer.stdout.partition(" ")[0].strip() if answer.exit_status == 0 else ""
