"""What every guard must do, the real one and the simulated one; subclass it with a ``target`` fixture."""

from dataclasses import replace

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import GuardMissingTool, LeaseGone, NotUndone, StepFailed, UnknownChange
from fabric.errors import Refused
from fabric.model.change import Check, Lease
from tests.changes.guard_target import HOST, Target

LATE_S = 3.0 * SLOWER
"""A guard has undone at the latest so long after its lease ran out."""

LOOKS_S = 0.5
"""A guard looks at its lease at least as often."""

SHORT = Lease(2.0 * SLOWER, 60.0)


class GuardContract:
    """The protocol, from outside."""

    def test_an_armed_guard_has_altered_nothing(self, target: Target) -> None:
        """Arming says for how long, and where the target's kernel is; nothing is closed."""
        armed = target.guard.read_armed(target.arm(lease=Lease(30.0, 60.0)))
        (listed,) = target.listed()
        assert len(armed.boot_id) == 36
        assert (listed.guard_id, listed.owner, listed.state) == ("one", "run-1", "armed")
        assert listed.alive
        assert listed.same_boot
        assert 20.0 < listed.left_s <= 30.0
        assert not target.is_closed()

    def test_what_is_applied_is_in_force_until_it_is_reverted(self, target: Target) -> None:
        """The plain way: arm, apply, revert; nothing is left."""
        target.guard.read_armed(target.arm())
        target.applied()
        assert target.is_closed()
        assert target.listed()[0].state == "applied"
        assert target.guard.read_reverted(target.run(target.guard.revert("one"))) is False
        assert not target.is_closed()
        assert target.listed() == ()

    def test_a_lease_that_runs_out_undoes(self, target: Target) -> None:
        """Nobody comes back: the guard undoes it, and says so to whoever asks later."""
        target.arm(lease=SHORT)
        target.applied()
        assert target.passes(SHORT.ttl_s + LATE_S, lambda: target.listed()[0].state == "reverted")
        assert not target.is_closed()
        (listed,) = target.listed()
        assert (listed.state, listed.alive, listed.left_s) == ("reverted", False, 0.0)
        assert target.guard.read_reverted(target.run(target.guard.revert("one"))) is True
        assert target.listed() == ()

    def test_an_apply_that_comes_too_late_is_refused(self, target: Target) -> None:
        """The fence: whoever slept between arm and apply alters nothing."""
        target.arm(lease=SHORT)
        target.pass_time(SHORT.ttl_s)
        with pytest.raises(LeaseGone, match="one"):
            target.applied()
        assert not target.is_closed()

    def test_a_renewed_lease_lives_on(self, target: Target) -> None:
        """Renewals carry it beyond its first end."""
        ttl_s = 3.0 * SLOWER  # long before the next renewal, also on a busy machine
        target.arm(lease=Lease(ttl_s, 60.0))
        target.applied()
        for _ in range(7):
            target.pass_time(0.5 * SLOWER)
            left_s = target.guard.read_renewed(target.run(target.guard.renew("one", ttl_s)))
            assert ttl_s / 3 < left_s < ttl_s + 0.01  # a lease is told in hundredths
        assert target.is_closed()

    def test_no_renewal_goes_beyond_the_longest_hold(self, target: Target) -> None:
        """However often it is renewed, it ends with the hold it was armed for."""
        most_s = 3.5 * SLOWER
        target.arm(lease=Lease(2.5 * SLOWER, most_s))
        target.applied()
        assert target.guard.read_renewed(target.run(target.guard.renew("one", 60.0))) <= most_s
        assert target.passes(most_s + LATE_S, lambda: not target.is_closed())
        with pytest.raises(LeaseGone):
            target.guard.read_renewed(target.run(target.guard.renew("one", 60.0)))

    def test_a_lifted_change_can_be_applied_again(self, target: Target) -> None:
        """The pauses of a flap: undone, still armed, applied again under the same lease."""
        target.arm()
        target.applied()
        target.guard.read_lifted(target.run(target.guard.lift("one")))
        assert not target.is_closed()
        assert target.listed()[0].state == "armed"
        target.applied()
        assert target.is_closed()

    def test_another_owner_is_kept_out(self, target: Target) -> None:
        """Two runs, one host: the second is told whose change is there."""
        target.arm()
        with pytest.raises(Refused, match=r"one owner run-1"):
            target.guard.read_armed(target.arm("two", owner="run-2"))
        target.guard.read_armed(target.arm("two", owner="run-1"))
        assert [one.guard_id for one in target.listed()] == ["one", "two"]

    def test_the_same_change_is_not_armed_twice(self, target: Target) -> None:
        """One name, one guard."""
        target.arm()
        with pytest.raises(Refused, match="another change is held"):
            target.guard.read_armed(target.arm())

    def test_what_a_guard_took_back_keeps_nobody_out(self, target: Target) -> None:
        """A folder of which nothing is in force any more is swept away by the next arm."""
        target.arm(lease=SHORT)
        assert target.passes(SHORT.ttl_s + LATE_S, lambda: target.listed()[0].state == "reverted")
        target.guard.read_armed(target.arm("two", owner="run-2"))
        assert [one.guard_id for one in target.listed()] == ["two"]

    def test_an_unknown_change_is_called_unknown(self, target: Target) -> None:
        """Every verb on a name that was never armed, or that was reverted before."""
        guard = target.guard
        target.arm()
        guard.read_reverted(target.run(guard.revert("one")))
        for argv, read in (
            (guard.apply("one", target.close), guard.read_applied),
            (guard.renew("one", 5.0), guard.read_renewed),
            (guard.lift("one"), guard.read_lifted),
            (guard.revert("one"), guard.read_reverted),
        ):
            with pytest.raises(UnknownChange, match=HOST):
                read(target.run(argv))
        assert not target.is_closed()

    def test_a_step_that_fails_ends_the_apply(self, target: Target) -> None:
        """The steps after it are not run, and its words are quoted."""
        target.arm()
        with pytest.raises(StepFailed, match="false"):
            target.guard.read_applied(target.run(target.guard.apply("one", (("false",), *target.close))))
        assert not target.is_closed()

    def test_an_undo_that_does_not_bring_the_state_back_is_not_undone(self, target: Target) -> None:
        """An undo that ends with 0 and changes nothing is seen by its checks; the guard keeps trying."""
        target.alteration = replace(target.alteration, undo=(("true",),))
        target.arm()
        target.applied()
        with pytest.raises(NotUndone, match="one is not undone: check does not find"):
            target.guard.read_reverted(target.run(target.guard.revert("one")))
        assert target.passes(LATE_S, lambda: target.listed()[0].state == "stuck")
        assert [one.alive for one in target.listed()] == [True]
        with pytest.raises(LeaseGone):
            target.applied()

    def test_a_target_without_the_tool_for_the_undo_is_not_armed(self, target: Target) -> None:
        """Better nothing than a change that cannot be taken back."""
        target.alteration = replace(target.alteration, undo=(("no-such-tool", "x"),))
        with pytest.raises(GuardMissingTool, match="no-such-tool"):
            target.guard.read_armed(target.arm())
        target.alteration = replace(target.alteration, undo=(("true",),), checks=(Check(("no-reader",), ("x",)),))
        with pytest.raises(GuardMissingTool, match="no-reader"):
            target.guard.read_armed(target.arm())
        assert target.listed() == ()

    def test_the_interface_of_the_session_is_never_touched(self, target: Target) -> None:
        """A device that carries the session is refused, and so is one that nobody knows."""
        for device, why in (("eth0", "carries the session"), ("mlx5_77", "unknown device")):
            target.alteration = replace(target.alteration, devices=("mlx5_0", device))
            with pytest.raises(Refused, match=f"{device} {why}"):
                target.guard.read_armed(target.arm())
        assert target.listed() == ()

    def test_a_killed_guard_is_seen_and_a_revert_heals(self, target: Target) -> None:
        """It is listed as dead, nothing may be applied or renewed under it, and nothing undoes by itself."""
        target.arm(lease=SHORT)
        target.applied()
        target.kill_guard()
        assert [(one.state, one.alive) for one in target.listed()] == [("applied", False)]
        with pytest.raises(LeaseGone):
            target.applied()
        with pytest.raises(LeaseGone):
            target.guard.read_renewed(target.run(target.guard.renew("one", 5.0)))
        target.pass_time(SHORT.ttl_s + 2 * LOOKS_S)
        assert target.is_closed()
        assert target.guard.read_reverted(target.run(target.guard.revert("one"))) is False
        assert not target.is_closed()

    def test_a_lost_lease_has_run_out(self, target: Target) -> None:
        """Nothing is guessed: the guard undoes at once, and nobody can apply."""
        target.arm()
        target.applied()
        target.lose("lease")
        with pytest.raises(LeaseGone):
            target.guard.read_renewed(target.run(target.guard.renew("one", 5.0)))
        assert target.passes(LATE_S, lambda: target.listed()[0].state == "reverted")
        assert not target.is_closed()

    def test_a_lost_state_is_torn_and_a_revert_heals(self, target: Target) -> None:
        """What is not known is not applied."""
        target.arm()
        target.applied()
        target.lose("state")
        assert target.listed()[0].state == "torn"
        with pytest.raises(LeaseGone):
            target.applied()
        target.guard.read_reverted(target.run(target.guard.revert("one")))
        assert not target.is_closed()
        assert target.listed() == ()

    @pytest.mark.parametrize("name", ["undo", "checks"])
    def test_a_folder_without_its_undo_is_never_called_reverted(self, target: Target, name: str) -> None:
        """A caller cannot undo it; the guard, which has read it, does."""
        target.arm()
        target.applied()
        target.lose(name)
        with pytest.raises(NotUndone, match="missing"):
            target.guard.read_reverted(target.run(target.guard.revert("one")))
        assert target.passes(LATE_S, lambda: not target.is_closed())

    def test_a_dead_guard_under_which_nothing_was_applied_keeps_nobody_out(self, target: Target) -> None:
        """Once its lease is over it is swept; before that it is not."""
        target.arm(lease=SHORT)
        target.kill_guard()
        with pytest.raises(Refused, match="one owner run-1"):
            target.guard.read_armed(target.arm("two", owner="run-2"))
        target.pass_time(SHORT.ttl_s + 0.1)
        target.guard.read_armed(target.arm("two", owner="run-2"))
        assert [one.guard_id for one in target.listed()] == ["two"]

    def test_a_dead_guard_of_an_applied_change_keeps_others_out(self, target: Target) -> None:
        """Nobody has undone it."""
        target.arm(lease=SHORT)
        target.applied()
        target.kill_guard()
        target.pass_time(SHORT.ttl_s + 2 * LOOKS_S)
        with pytest.raises(Refused, match="one owner run-1"):
            target.guard.read_armed(target.arm("two", owner="run-2"))

    def test_a_forgotten_change_is_unknown(self, target: Target) -> None:
        """As after a restart of the target: its folder is gone, and nobody undoes."""
        target.arm()
        target.applied()
        target.forget()
        with pytest.raises(UnknownChange):
            target.guard.read_reverted(target.run(target.guard.revert("one")))
        assert target.is_closed()
