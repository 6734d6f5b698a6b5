"""Derived files are whole or not there."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric.app import analyze


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, on which a report finds no place."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount a small file system")
    place = tmp_path / "full"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(words, check=False, capture_output=True, timeout=10).returncode != 0:
        pytest.skip("this machine lets nobody mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=10)


def test_a_full_disk_is_an_error_and_leaves_the_old_report_and_nothing_else(full_disk: Path) -> None:
    page = full_disk / "report.html"
    analyze.write_text(page, "old")
    with pytest.raises(OSError, match="No space left") as caught:
        analyze.write_text(page, "x" * 200_000)
    assert caught.value.errno == errno.ENOSPC
    assert page.read_text() == "old"
    assert [path.name for path in full_disk.iterdir()] == ["report.html"]


def test_what_cannot_take_its_place_is_removed(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        analyze.write_text(tmp_path / "report.html", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
