"""What only the simulated guard can be put through: restarts of its host, locks that hang, steps that outlive."""

from __future__ import annotations

import pytest

from fabric.changes.guard import Guard, LeaseGone, NotUndone, UnknownChange
from fabric.errors import Refused
from fabric.model.change import Lease
from fabric.sim.hosts.timeline import Exited
from tests.changes import guard_mishaps
from tests.changes.guard_target import HOST, SimulatedTarget


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
