"""A disk that fills up after arm: the undo needs no space. A small tmpfs stands for the disk."""

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
def on_small_disk(tmp_path: Path) -> Iterator[RealTarget]:
    """The guard's directory is a file system of its own."""
    on_small_disk = RealTarget(tmp_path)
    place = on_small_disk.place / "disk"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", f"size={SPACE},mode=700", "tmpfs", str(place)), check=True)
    on_small_disk.guard = type(on_small_disk.guard)(str(place / "guards"))
    yield on_small_disk
    subprocess.run(("umount", "-l", str(place)), check=True)
    on_small_disk.end()


def _fill(on_small_disk: RealTarget) -> None:
    place = Path(on_small_disk.guard.directory).parent
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


def test_a_disk_that_fills_after_arm_does_not_stop_the_undo(on_small_disk: RealTarget) -> None:
    """A renewal is refused, the lease runs out, and the guard undoes."""
    on_small_disk.guard.read_armed(on_small_disk.arm(lease=Lease(2.0 * SLOWER, 60.0)))
    on_small_disk.applied()
    _fill(on_small_disk)
    with pytest.raises(GuardCannotWrite):
        on_small_disk.guard.read_renewed(on_small_disk.run(on_small_disk.guard.renew("one", 30.0)))
    until(lambda: on_small_disk.listed()[0].state == "reverted", "reverted by the guard", 6.0)
    assert not on_small_disk.is_closed()
    on_small_disk.guard.read_reverted(on_small_disk.run(on_small_disk.guard.revert("one")))
    assert on_small_disk.listed() == ()


def test_a_disk_that_turns_read_only_does_not_stop_the_undo(on_small_disk: RealTarget) -> None:
    """The guard cannot even note that it has undone; the port is open, and revert says what it cannot do."""
    on_small_disk.guard.read_armed(on_small_disk.arm(lease=Lease(2.0 * SLOWER, 60.0)))
    on_small_disk.applied()
    place = str(Path(on_small_disk.guard.directory).parent)
    subprocess.run(("mount", "-o", "remount,ro", place), check=True)
    until(lambda: not on_small_disk.is_closed(), "undone", 6.0)
    with pytest.raises(GuardCannotWrite):
        on_small_disk.guard.read_reverted(on_small_disk.run(on_small_disk.guard.revert("one")))
    subprocess.run(("mount", "-o", "remount,rw", place), check=True)
    on_small_disk.guard.read_reverted(on_small_disk.run(on_small_disk.guard.revert("one")))
