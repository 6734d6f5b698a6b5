"""Any order of calls, waits and mishaps: no change outlives its lease while its simulated guard lives."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fabric.changes.guard import LeaseGone
from fabric.errors import Refused
from fabric.model.change import Lease
from tests.changes.guard_target import SimulatedTarget

TTL_S, HOLD_S = 5.0, 12.0
LATE_S = 1.0  # the guard's look, and the moments that calls take


class AnyOrder(RuleBasedStateMachine):
    """What we believe (*closed*, *end_s*) against what the target does."""

    def __init__(self) -> None:
        super().__init__()
        self.target = SimulatedTarget()
        self.armed = False
        self.guarded = False
        self.closed = False
        self.term_s = self.end_s = 0.0

    @property
    def _sure_live(self) -> bool:
        return self.armed and self.guarded and self.target.now_s < self.end_s - LATE_S

    @property
    def _sure_gone(self) -> bool:
        return self.armed and self.guarded and self.target.now_s > self.end_s + LATE_S

    @precondition(lambda self: not self.armed)
    @rule()
    def arm(self) -> None:
        """A new change."""
        self.target.guard.read_armed(self.target.arm(lease=Lease(TTL_S, HOLD_S)))
        self.armed, self.guarded, self.closed = True, True, False
        self.end_s, self.term_s = self.target.now_s + TTL_S, self.target.now_s + HOLD_S

    @precondition(lambda self: self.armed)
    @rule()
    def arm_another(self) -> None:
        """Somebody else is kept out while it is live."""
        answer = self.target.arm("two", owner="run-2")
        if self._sure_live or (self.closed and not self.guarded):
            try:
                self.target.guard.read_armed(answer)
            except Refused:
                return
            raise AssertionError("two owners")
        if answer.exit_status == 0:  # ours had been undone by its guard, and was swept
            self.target.guard.read_reverted(self.target.run(self.target.guard.revert("two")))
            self.armed = self.closed = False

    @precondition(lambda self: self.armed)
    @rule()
    def apply(self) -> None:
        """Closes the port under a live lease, and only then."""
        live, gone = self._sure_live, self._sure_gone
        try:
            self.target.applied()
            assert self.guarded
            assert not gone
            self.closed = True
        except LeaseGone:
            assert not live

    @precondition(lambda self: self.armed)
    @rule()
    def renew(self) -> None:
        """As long as it is live; never beyond the hold."""
        live, gone = self._sure_live, self._sure_gone
        try:
            left_s = self.target.guard.read_renewed(self.target.run(self.target.guard.renew("one", TTL_S)))
        except LeaseGone:
            assert not live
            return
        assert self.guarded
        assert not gone
        self.end_s = self.target.now_s + left_s
        assert self.end_s <= self.term_s + 0.1

    @precondition(lambda self: self.armed)
    @rule()
    def lift(self) -> None:
        """Opens the port for now."""
        live, gone = self._sure_live, self._sure_gone
        try:
            self.target.guard.read_lifted(self.target.run(self.target.guard.lift("one")))
            assert self.guarded
            assert not gone
            self.closed = False
        except LeaseGone:
            assert not live

    @precondition(lambda self: self.armed)
    @rule()
    def revert(self) -> None:
        """Opens the port for good, whoever was first."""
        live, gone = self._sure_live, self._sure_gone
        by_guard = self.target.guard.read_reverted(self.target.run(self.target.guard.revert("one")))
        assert by_guard if gone else not (by_guard and (live or not self.guarded))
        self.armed = self.closed = False
        assert self.target.listed() == ()

    @precondition(lambda self: self._sure_live)
    @rule()
    def kill_guard(self) -> None:
        """From now on only a revert opens the port."""
        self.target.kill_guard()
        self.guarded = False

    @precondition(lambda self: self._sure_live)
    @rule()
    def lose_lease(self) -> None:
        """What cannot be read has run out."""
        self.target.lose("lease")
        self.end_s = self.target.now_s

    @precondition(lambda self: self.armed)
    @rule()
    def reboot(self) -> None:
        """/run is empty, the port is open."""
        self.target.reboot()
        self.armed = self.closed = False
        assert self.target.listed() == ()

    @rule(seconds=st.floats(0.1, 8.0))
    def wait(self, seconds: float) -> None:
        """Nobody calls."""
        self.target.pass_time(seconds)

    @invariant()
    def the_port_is_as_the_lease_says(self) -> None:
        """Closed while applied and live; open when reverted, lifted, or when the lease has run out."""
        live, gone = self._sure_live, self._sure_gone
        closed = self.target.is_closed()
        if not self.armed or gone:
            assert not closed
        elif live or not self.guarded:
            assert closed == self.closed


AnyOrder.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyOrder = AnyOrder.TestCase
