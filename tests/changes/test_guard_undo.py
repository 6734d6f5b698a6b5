"""Undos that fail or hang, disks that are full, words that are hostile: the real guard on this machine."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import GuardCannotWrite, GuardMissingTool, NotUndone
from fabric.model.change import Check, Lease
from tests.changes.guard_target import RealTarget, until

pytestmark = pytest.mark.slow

TTL_S = 3.0 * SLOWER


def test_an_undo_that_fails_is_tried_until_it_works(target: RealTarget) -> None:
    """Twice no answer, then it works: the log tells."""
    (target.here / "fails").write_text("2\n")
    target.arm(lease=Lease(TTL_S, 60.0))
    target.applied()
    until(lambda: target.listed()[0].state == "reverted", "reverted", 60.0)
    assert not target.is_closed()
    log = target.guard.read_log(target.run(target.guard.log("one")))
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
    target.arm(lease=Lease(TTL_S, 60.0))
    target.applied()
    until(lambda: target.listed()[0].state == "reverted", "reverted", 15.0)
    assert not target.is_closed()
    assert "undo ended with 124" in target.guard.read_log(target.run(target.guard.log("one")))


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
