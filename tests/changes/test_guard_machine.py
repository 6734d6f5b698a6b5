"""Guards in any order, and what only the simulated one can be put through: restarts, locks and steps that hang."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fabric.changes.guard import Guard, LeaseGone, NotUndone, UnknownChange
from fabric.errors import Refused
from fabric.model.change import Lease
from fabric.sim.hosts.timeline import Exited
from tests.changes import guard_mishaps
from tests.changes.guard_target import HOST, SimulatedTarget

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


@pytest.fixture
def target() -> SimulatedTarget:
    """A fresh world."""
    return SimulatedTarget()


def test_a_restart_of_the_host_loses_run_and_brings_its_ports_back(target: SimulatedTarget) -> None:
    before = target.guard.read_armed(target.arm()).boot_id
    target.applied()
    target.reboot()
    assert not target.is_closed()
    assert target.listed() == ()
    with pytest.raises(UnknownChange):
        target.applied()
    assert target.guard.read_armed(target.arm()).boot_id != before


def test_a_folder_that_outlives_a_restart_is_of_another_boot() -> None:
    target = SimulatedTarget(directory="/var/lib/fabric-guard")
    target.arm()
    target.applied()
    target.reboot()
    (listed,) = target.listed()
    assert (listed.state, listed.alive, listed.same_boot, listed.left_s) == ("applied", False, False, 0.0)
    with pytest.raises(LeaseGone):
        target.applied()
    with pytest.raises(Refused):
        target.guard.read_armed(target.arm("two", owner="run-2"))
    assert target.guard.read_reverted(target.run(target.guard.revert("one"))) is False


def test_a_folder_of_another_boot_under_which_nothing_was_applied_is_swept() -> None:
    target = SimulatedTarget(directory="/var/lib/fabric-guard")
    target.arm()
    target.reboot()
    target.guard.read_armed(target.arm("two", owner="run-2"))
    assert [one.guard_id for one in target.listed()] == ["two"]


def test_a_call_waits_for_the_lock_and_is_busy_after_ten_seconds(target: SimulatedTarget) -> None:
    target.arm(lease=Lease(60.0, 600.0))
    target.applied()
    guard_mishaps.hold_lock(target.world.rack, HOST, "one", target.now_s + 3.0)
    began_s = target.now_s
    assert target.guard.read_renewed(target.run(target.guard.renew("one", 60.0))) > 0
    assert target.now_s >= began_s + 3.0
    guard_mishaps.hold_lock(target.world.rack, HOST, "one", target.now_s + 60.0)
    with pytest.raises(Refused, match="one owner run-1"):
        target.guard.read_renewed(target.run(target.guard.renew("one", 60.0)))
    with pytest.raises(NotUndone, match="another call holds this change"):
        target.guard.read_reverted(target.run(target.guard.revert("one")))


def test_a_lock_that_hangs_does_not_keep_the_change_alive(target: SimulatedTarget) -> None:
    target.arm(lease=Lease(5.0, 60.0))
    target.applied()
    guard_mishaps.hold_lock(target.world.rack, HOST, "one", target.now_s + 30.0)
    target.pass_time(5.0 + 2.0 + 1.0)
    assert "UP" in target.run(("ip", "link", "show", "ib0")).stdout
    assert not target.is_closed()
    assert target.listed()[0].state == "stuck"
    target.pass_time(60.0)
    assert target.listed()[0].state == "reverted"


def test_a_step_that_outlives_its_killed_caller_is_undone_by_the_guard(target: SimulatedTarget) -> None:
    target.arm(lease=Lease(1.0, 60.0))
    pid = target.world.start(HOST, target.guard.apply("one", target.close), {}, target.now_s)
    held = target.world.rack.guards[HOST, "/run/fabric-guard"]["one"]
    while not held.applying(target.now_s):
        next_s = target.world.next_s()
        assert next_s is not None
        target.now_s = next_s
        target.world.advance(target.now_s)
    target.world.kill(pid, target.now_s)
    target.pass_time(0.2)
    assert target.is_closed()
    target.pass_time(4.0)
    assert not target.is_closed()
    assert target.listed()[0].state == "reverted"


def test_two_calls_of_one_change_act_one_after_the_other(target: SimulatedTarget) -> None:
    target.arm()
    guard: Guard = target.guard
    steps = target.close * 5
    first = target.world.start(HOST, guard.apply("one", steps), {}, target.now_s)
    second = target.world.start(HOST, guard.revert("one"), {}, target.now_s)
    ended: list[int] = []
    while len(ended) < 2:
        next_s = target.world.next_s()
        assert next_s is not None
        target.now_s = next_s
        ended += [one.pid for one in target.world.advance(next_s) if isinstance(one, Exited)]
    assert ended == [first, second]
    assert not target.is_closed()
    assert target.listed() == ()
