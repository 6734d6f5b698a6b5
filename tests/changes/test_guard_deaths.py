"""Undos that fail or hang, and whoever dies, whenever: what a change closed is opened again. Real sh, real SIGKILLs."""

import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import GuardCannotWrite, GuardMissingTool, LeaseGone, NotUndone, UnknownChange
from fabric.errors import CommandTimeout
from fabric.hosts.process import ProcessExecutor
from fabric.model.change import Check, Lease
from fabric.model.probe import Command
from fabric.ports import run_once
from tests.changes.guard_target import HOST, PEER, RealTarget, until

pytestmark = pytest.mark.slow

TTL_S = 1.5 * SLOWER
LATE_S = 3.0


def _undone_in_time(target: RealTarget) -> None:
    """The guard has undone it, and knows it has, within the lease and three seconds."""
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", TTL_S + LATE_S)
    assert not target.is_closed()


@pytest.mark.parametrize("whole_session", [True, False])
def test_a_caller_killed_in_the_middle_of_apply_leaves_nothing(target: RealTarget, whole_session: bool) -> None:
    """Also when a step outlives its caller and acts after the guard has undone: the guard undoes again."""
    target.arm(lease=Lease(TTL_S, 60.0))
    (target.here / "slow").write_text("0.2" if whole_session else "3")
    caller = target.begin(target.guard.apply("one", target.close))
    until((target.here / "began").exists, "the step has begun")
    if whole_session:
        os.killpg(caller.pid, signal.SIGKILL)
    else:
        caller.kill()
    caller.wait(timeout=10)
    if not whole_session:
        with pytest.raises(NotUndone, match="still runs"):
            target.guard.read_reverted(target.run(target.guard.revert("one")))
        until((target.here / "ended").exists, "the step has acted", 10.0)
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", TTL_S + 3 * LATE_S)
    assert not target.is_closed()


@pytest.mark.parametrize("by_guard", [True, False])
def test_a_step_that_acts_and_ends_beside_an_undo_is_undone_too(target: RealTarget, by_guard: bool) -> None:
    """It acts after the undo was seen to hold, and has ended before anybody asks whether it runs."""
    target.arm(lease=Lease(TTL_S if by_guard else 60.0, 60.0))
    (target.here / "race").touch()
    caller = target.begin(target.guard.apply("one", target.close))
    until((target.here / "began").exists, "the step has begun")
    caller.kill()
    caller.wait(timeout=10)
    if by_guard:
        _undone_in_time(target)
    else:
        target.guard.read_reverted(target.run(target.guard.revert("one")))
        assert not target.is_closed()
    assert (target.here / "ended").exists()


def test_a_caller_killed_in_the_middle_of_arm_leaves_nothing_unguarded(target: RealTarget) -> None:
    """At whatever moment: the change is unknown, or it can be reverted; and the next arm is not kept out."""
    seen = set()
    for step in range(16):
        argv = target.guard.arm("one", owner="run-1", lease=Lease(20.0, 60.0), peer=PEER, what=target.alteration)
        caller = target.begin(argv)
        time.sleep(0.008 * step)  # the moment is what the test is about; an arm takes some 70 ms
        os.killpg(caller.pid, signal.SIGKILL)
        caller.wait(timeout=10)
        listed = target.listed()
        seen.add(len(listed))
        answer = target.run(target.guard.revert("one"))
        if listed:
            assert target.guard.read_reverted(answer) is False
        else:
            with pytest.raises(UnknownChange):
                target.guard.read_reverted(answer)
    assert 0 in seen
    assert target.arm().exit_status == 0
    assert [one.name for one in Path(target.guard.directory).iterdir() if one.is_dir()] == ["one"]


def test_a_guard_does_not_hear_signals(target: RealTarget) -> None:
    """None that a process can ignore ends it, nor a stop and its end; its lease goes on."""
    target.arm(lease=Lease(TTL_S, 60.0))
    target.applied()
    kept = {signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP}
    for number in (*sorted(set(range(1, 32)) - kept), signal.SIGSTOP, signal.SIGCONT, signal.SIGRTMIN, signal.SIGRTMAX):
        os.kill(target.guard_pid(), number)
    assert target.listed()[0].alive
    assert target.is_closed()
    _undone_in_time(target)


def test_a_guard_that_is_told_to_end_undoes_at_once(target: RealTarget) -> None:
    """SIGTERM is what a shutdown sends: the lease is void, and whoever held it hears so."""
    target.arm(lease=Lease(60.0, 60.0))
    target.applied()
    os.kill(target.guard_pid(), signal.SIGTERM)
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", LATE_S)
    assert not target.is_closed()
    with pytest.raises(LeaseGone):
        target.guard.read_renewed(target.run(target.guard.renew("one", 30.0)))


def test_a_guard_whose_folder_is_gone_undoes_at_once(target: RealTarget) -> None:
    """It has the undo in memory, and nobody can renew its lease or take the change back any more."""
    target.arm(lease=Lease(60.0, 60.0))
    target.applied()
    pid = target.guard_pid()
    shutil.rmtree(target.guard.directory)
    until(lambda: not target.is_closed(), "undone", LATE_S)
    until(lambda: not target.is_guard(pid), "the guard has ended", LATE_S)


@pytest.mark.parametrize("text", ["", "\n", "none\n", "0\n"])
def test_a_guard_stays_when_its_number_is_lost(target: RealTarget, text: str) -> None:
    """Only the number of another guard ends it."""
    target.arm(lease=Lease(TTL_S, 60.0))
    target.applied()
    Path(target.guard.directory, "one", "pid").write_text(text)
    _undone_in_time(target)


def test_a_guard_leaves_the_change_to_another_one(target: RealTarget) -> None:
    """Where a second one was begun, its number is in the file."""
    target.arm(lease=Lease(60.0, 60.0))
    pid = target.guard_pid()
    Path(target.guard.directory, "one", "pid").write_text(f"{os.getpid()}\n")
    until(lambda: not target.is_guard(pid), "the guard has ended", LATE_S)


def test_the_end_of_the_callers_session_does_not_end_the_guard(target: RealTarget) -> None:
    """The executor's wrapper ends all that is left of a command's session; a guard is not in it."""
    argv = target.guard.arm("one", owner="run-1", lease=Lease(TTL_S, 60.0), peer=PEER, what=target.alteration)
    environment = tuple(target.env.items())
    executor = ProcessExecutor(())
    try:
        answer = run_once(executor, Command(HOST, argv, 20.0, environment))
        target.guard.read_armed(answer)
        assert answer.stderr == ""
        assert answer.ended_s - answer.started_s < 5.0  # it does not wait for the guard
        target.guard.read_applied(
            run_once(executor, Command(HOST, target.guard.apply("one", target.close), 20.0, environment))
        )
    finally:
        executor.close()
    assert target.listed()[0].alive
    _undone_in_time(target)


def test_a_cancelled_apply_is_undone(target: RealTarget) -> None:
    """The deadline of the call ends its steps; the guard does the rest."""
    target.arm(lease=Lease(TTL_S, 60.0))
    (target.here / "slow").write_text("30")
    environment = tuple(target.env.items())
    executor = ProcessExecutor(())
    try:
        with pytest.raises(CommandTimeout):
            run_once(executor, Command(HOST, target.guard.apply("one", target.close), 1.0, environment))
    finally:
        executor.close()
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", TTL_S + 2 * LATE_S)
    assert not target.is_closed()


def test_a_caller_that_hangs_with_the_lock_does_not_keep_the_change_alive(target: RealTarget) -> None:
    """A stopped apply holds the lock; the guard undoes all the same, and once more when the lock is free."""
    target.arm(lease=Lease(TTL_S, 60.0))
    (target.here / "slow").write_text("0.2")
    caller = target.begin(target.guard.apply("one", (*target.close, ("sleep", "0.1"), *target.close)))
    until((target.here / "began").exists, "the step has begun")
    os.kill(caller.pid, signal.SIGSTOP)
    until(target.is_closed, "the step has acted")
    until(lambda: not target.is_closed(), "undone without the lock", TTL_S + 2 * LATE_S)
    assert target.listed()[0].state != "reverted"
    os.kill(caller.pid, signal.SIGCONT)
    assert caller.wait(timeout=10) == 75
    until(lambda: target.listed()[0].state == "reverted", "undone under the lock", 2 * LATE_S)
    assert not target.is_closed()


def test_a_guard_of_another_boot_counts_as_dead(target: RealTarget) -> None:
    """After a restart of the target its guard is gone and its lease is void; revert still undoes."""
    target.arm()
    target.applied()
    Path(target.guard.directory, "one", "boot").write_text("00000000-0000-4000-8000-000000000000\n")
    (listed,) = target.listed()
    assert (listed.alive, listed.same_boot, listed.left_s) == (False, False, 0.0)
    with pytest.raises(LeaseGone):
        target.applied()
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_closed()


@pytest.mark.parametrize("lost", ["owner", "boot", "lease", "term", "pid", "log", "lock", "alive", "guard", "is-armed"])
def test_a_torn_folder_can_be_listed_and_reverted(target: RealTarget, lost: str) -> None:
    """Whichever file is lost: the list says what is there, nothing is applied on a doubt, and revert undoes."""
    target.arm()
    target.applied()
    target.guard.read_lifted(target.run(target.guard.lift("one")))
    Path(target.guard.directory, "one", lost).unlink()
    (listed,) = target.listed()
    assert listed.guard_id == "one"
    assert listed.owner == ("?" if lost == "owner" else "run-1")
    assert listed.state in (("torn",) if lost == "is-armed" else ("armed", "applied", "stuck", "reverted"))
    (target.here / "state").write_text("down")
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_closed()
    assert target.listed() == ()


def test_an_arm_that_was_killed_before_its_guard_ran_blocks_nobody(target: RealTarget) -> None:
    """Nothing was applied under it: when its lease is over, somebody else's change takes its place."""
    target.guard.read_armed(target.arm(lease=Lease(TTL_S, 60.0)))
    folder = Path(target.guard.directory, "one")
    os.kill(target.guard_pid(), signal.SIGKILL)
    (folder / "pid").unlink()
    until(lambda: target.arm("two", owner="run-2").exit_status == 0, "somebody else's change is armed", TTL_S + LATE_S)
    assert not folder.exists()


SHORT_TTL_S = 3.0 * SLOWER


def test_an_undo_that_fails_is_tried_until_it_works(target: RealTarget) -> None:
    """Twice no answer, then it works: the log tells."""
    (target.here / "fails").write_text("2\n")
    target.arm(lease=Lease(SHORT_TTL_S, 60.0))
    target.applied()
    until(lambda: target.listed()[0].state == "reverted", "reverted", 60.0)
    assert not target.is_closed()
    log = target.log()
    assert log.count("undo ended with 3: port set up") == 2
    assert "port: no answer" in log


def test_an_undo_that_never_works_is_reported_with_its_own_words(target: RealTarget) -> None:
    """Revert says what the tool said, the guard stays and goes on; when the tool works again so does revert."""
    (target.here / "fails").write_text("1000\n")
    target.arm(lease=Lease(30.0, 60.0))
    target.applied()
    with pytest.raises(NotUndone, match="undo ended with 3: port set up\nport: no answer"):
        target.guard.read_reverted(target.run(target.guard.revert("one")))
    until(lambda: target.listed()[0].state == "stuck", "the guard tries at once", 5.0)
    assert target.listed()[0].alive
    (target.here / "fails").write_text("0\n")
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_closed()
    assert target.listed() == ()


def test_every_step_of_an_undo_is_run_even_after_one_that_failed(target: RealTarget) -> None:
    """One bad step does not keep the others from undoing their part."""
    target.alteration = replace(target.alteration, undo=(("false",), ("port", "set", "up")))
    target.arm()
    target.applied()
    with pytest.raises(NotUndone, match="undo ended with 1: false"):
        target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_closed()


def test_an_undo_that_hangs_is_cut_and_tried_again(target: RealTarget) -> None:
    """A tool gets a limited time; here the limit is one second in place of thirty."""
    target.stub(
        "timeout", '#!/bin/sh\n[ "$1" != -k ] || { shift 3; set -- -k 1 1 "$@"; }\nexec /usr/bin/timeout "$@"\n'
    )
    (target.here / "hangs").touch()
    target.arm(lease=Lease(SHORT_TTL_S, 60.0))
    target.applied()
    until(lambda: target.listed()[0].state == "reverted", "reverted", 15.0)
    assert not target.is_closed()
    assert "undo ended with 124" in target.log()


def test_a_tool_that_leaves_a_process_behind_holds_nothing_up(target: RealTarget) -> None:
    """A daemon that keeps the tool's output open: nobody waits for its end, and the locks are not in its hands."""
    left = target.here / "left"
    target.stub("restart", f'#!/bin/sh\nport set "$1"\nsleep 20 &\necho $! >{left}\n')
    target.stub("timeout", '#!/bin/sh\n[ "$1" != 40 ] || { shift; set -- 2 "$@"; }\nexec /usr/bin/timeout "$@"\n')
    target.alteration = replace(target.alteration, undo=(("restart", "up"),))
    target.arm()
    target.guard.read_lifted(target.run(target.guard.lift("one")))
    daemon = int(left.read_text())
    try:
        assert Path(f"/proc/{daemon}/fd/1").exists(), "lift waited for the daemon's end"
        target.applied()
    finally:
        os.kill(daemon, signal.SIGKILL)
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_a_disk_that_is_full_arms_nothing(target: RealTarget) -> None:
    """Files of no size at all may be written: the guard cannot keep its undo, so there is no guard."""
    limited = ("bash", "-c", 'ulimit -f 0; exec "$@"', "limited")
    argv = target.guard.arm("one", owner="run-1", lease=Lease(), peer="192.0.2.7", what=target.alteration)
    with pytest.raises(GuardCannotWrite, match="cannot write"):
        target.guard.read_armed(target.run(argv, before=limited))
    assert target.listed() == ()
    assert [one for one in Path(target.guard.directory).iterdir() if one.is_dir()] == []


def test_what_a_guard_keeps_is_for_its_user_alone(target: RealTarget) -> None:
    """0700 and 0600, whatever the umask of the session."""
    argv = target.guard.arm("one", owner="run-1", lease=Lease(), peer="192.0.2.7", what=target.alteration)
    target.run(argv, before=("sh", "-c", 'umask 0; exec "$@"', "open"))
    directory = Path(target.guard.directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert all(one.stat().st_mode & 0o077 == 0 for one in directory.rglob("*"))


def test_a_target_without_the_guards_own_tools_is_not_armed(target: RealTarget) -> None:
    """Without flock there is no fence."""
    for name in ("sh", "cat", "timeout", "setsid", "grep"):
        (target.bin / name).symlink_to(f"/usr/bin/{name}")
    target.env["PATH"] = str(target.bin)
    if Path("/usr/sbin/flock").exists() or Path("/sbin/flock").exists():
        pytest.skip("flock is where the guard looks by itself")
    with pytest.raises(GuardMissingTool, match="there is no flock"):
        target.guard.read_armed(target.arm())


HOSTILE = (
    "it's", '"', "$HOME", "$(touch pwned)", "`touch pwned`", "a  b", "*", "~", "\\", "\\n", "-n", "--", ";", "&", "|",
    ">out", "!", "#", "é東京", "", " ", "\t", "{a,b}", "%s", "${IFS}", "=", "A=b", "'\"'\"'", "\x01", "\x7f",
)  # fmt: skip


def test_hostile_words_arrive_as_they_are(target: RealTarget) -> None:
    """Quotes, dollars, blanks, dashes and other scripts: unsplit and uninterpreted, in apply, undo and check."""
    target.stub("words", '#!/bin/sh\nprintf "%s\\0" "$@" >"{}/$1"\n'.replace("{}", str(target.here)))
    check = Check(("printf", "%s\\n", *HOSTILE[:20]), (r"^it's$", r"^[$]HOME$", "^é東京$", "^  *$|^-n$"))
    target.alteration = replace(target.alteration, undo=(("words", "undo", *HOSTILE),), checks=(check,))
    target.arm()
    target.guard.read_applied(target.run(target.guard.apply("one", (("words", "apply", *HOSTILE),))))
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    for name in ("apply", "undo"):
        arrived = (target.here / name).read_bytes().decode().split("\0")[1:-1]
        assert tuple(arrived) == HOSTILE
    assert not list(target.here.rglob("pwned"))
