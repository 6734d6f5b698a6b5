"""A disk that fills up after arm: the undo needs no space. A small tmpfs stands for the disk."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import GuardCannotWrite
from fabric.model.change import Lease
from tests.changes.guard_target import RealTarget, until

pytestmark = pytest.mark.lab

SPACE = "256k"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RealTarget]:
    """The guard's directory is a file system of its own."""
    target = RealTarget(tmp_path)
    place = target.place / "disk"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", f"size={SPACE},mode=700", "tmpfs", str(place)), check=True)
    target.guard = type(target.guard)(str(place / "guards"))
    yield target
    subprocess.run(("umount", "-l", str(place)), check=True)
    target.end()


def _fill(target: RealTarget) -> None:
    place = Path(target.guard.directory).parent
    with (place / "ballast").open("wb", buffering=0) as ballast:
        written = 1
        while written:
            try:
                written = ballast.write(b"x" * 1024)
            except OSError as exc:
                if exc.errno != errno.ENOSPC:
                    raise
                return
    raise AssertionError("a disk without an end")


def test_a_disk_that_fills_after_arm_does_not_stop_the_undo(target: RealTarget) -> None:
    """A renewal is refused, the lease runs out, and the guard undoes."""
    target.guard.read_armed(target.arm(lease=Lease(2.0 * SLOWER, 60.0)))
    target.applied()
    _fill(target)
    with pytest.raises(GuardCannotWrite):
        target.guard.read_renewed(target.run(target.guard.renew("one", 30.0)))
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", 6.0)
    assert not target.is_closed()
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert target.listed() == ()


def test_a_disk_that_turns_read_only_does_not_stop_the_undo(target: RealTarget) -> None:
    """The guard cannot even note that it has undone; the port is open, and revert says what it cannot do."""
    target.guard.read_armed(target.arm(lease=Lease(2.0 * SLOWER, 60.0)))
    target.applied()
    place = str(Path(target.guard.directory).parent)
    subprocess.run(("mount", "-o", "remount,ro", place), check=True)
    until(lambda: not target.is_closed(), "undone", 6.0)
    with pytest.raises(GuardCannotWrite):
        target.guard.read_reverted(target.run(target.guard.revert("one")))
    subprocess.run(("mount", "-o", "remount,rw", place), check=True)
    target.guard.read_reverted(target.run(target.guard.revert("one")))
