"""A file system with room for so much, whatever that is: a clear error, nothing lost, and with room the run goes on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.app.analyze import make_reports, reopened
from fabric.errors import FabricError, StoreError
from tests.engine.test_disk_full import goes_on
from tests.runs.small_run import EVERY_5_S, begin, run_of, scenario

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("root")]

PAGE_KIB = 4
ROOMY_KIB = 50 << 10
_NAMED = re.compile(r"([\w.]+): cannot write: .*No space left")


@contextmanager
def file_system(folder: Path) -> Iterator[None]:
    """One of its own in this folder, in memory."""
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", str(folder)), check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run(("umount", str(folder)), check=True, timeout=20)


def resize(folder: Path, size_kib: int) -> None:
    """From now on it holds so much."""
    subprocess.run(("mount", "-o", f"remount,size={size_kib}k", str(folder)), check=True, timeout=20)


def used_kib(folder: Path) -> int:
    """How much is in it."""
    done = subprocess.run(("df", "-k", "--output=used", str(folder)), check=True, capture_output=True, timeout=20)
    return int(done.stdout.split()[-1])


def refused(folder: Path) -> str | None:
    """What a run there ends with when the disk is full; None when it fits."""
    try:
        begin(folder, file=scenario(folder, sample=EVERY_5_S))
    except FabricError as exc:
        return str(exc)
    return None


@pytest.mark.timeout(300 * SLOWER)
def test_whatever_finds_no_room_nothing_is_lost(tmp_path: Path) -> None:
    """Each size is a page more than the last, until the run fits; files of several kinds are the one that did not."""
    named: set[str] = set()
    for size_kib in range(2 * PAGE_KIB, 1024, PAGE_KIB):
        folder = tmp_path / str(size_kib)
        with file_system(folder):
            resize(folder, size_kib)
            said = refused(folder)
            if said is None:
                break
            assert "No space left" in said or "fabric restore" in said, (size_kib, said)
            named.update(_NAMED.findall(said))
            resize(folder, ROOMY_KIB)
            goes_on(folder, size_kib)
    else:
        raise AssertionError("it never fitted")
    assert len(named) > 3, named


@pytest.mark.timeout(300 * SLOWER)
def test_reports_that_find_no_room_are_told_and_can_be_made_later(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with file_system(folder):
        begin(folder)
        run = run_of(folder)
        resize(folder, used_kib(folder) + PAGE_KIB)
        with pytest.raises(StoreError, match="cannot write: No space left"):
            make_reports(reopened(run))
        resize(folder, ROOMY_KIB)
        assert make_reports(reopened(run)).is_file()
