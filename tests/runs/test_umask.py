"""Who may read a run is what the umask says; only its account may write it, and its lock is of that account alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command_line import called
from tests.runs.other_account import NOBODY, place
from tests.runs.small_run import EVERY_5_S, scenario

__all__ = ["place"]

SECRET = ".lock.held"
IS_ROOT = os.geteuid() == 0


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Meanwhile."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def colleague() -> Iterator[None]:
    """Another account of another group meanwhile, for which root alone can stand in."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def made(folder: Path, mask: int) -> Path:
    """A whole run with its reports; the results folder."""
    with umask(mask):
        file = scenario(folder, sample=EVERY_5_S)
        said = called(["run", str(file), "--results", str(folder / "results")])
        assert said.returncode == 0, said.stderr
    return folder / "results"


@pytest.mark.parametrize("mask", [0o027, *(pytest.param(one, marks=pytest.mark.slow) for one in (0o002, 0o022, 0o077))])
def test_every_file_and_folder_is_as_the_umask_says(tmp_path: Path, mask: int) -> None:
    results = made(tmp_path, mask)
    wrong = []
    for path in [results, *results.rglob("*")]:
        if path.is_symlink():
            continue
        own = 0o022 if len(path.relative_to(results).parts) > 1 else 0  # restore runs what a run's files say
        allowed = 0o600 if path.name == SECRET else (0o777 if path.is_dir() else 0o666) & ~mask & ~own
        if (mode := stat.S_IMODE(path.stat().st_mode)) != allowed:
            wrong.append(f"{path.relative_to(results)}: {mode:o}, not {allowed:o}")
    assert not wrong
    assert len(list(results.rglob("*"))) > 10


@pytest.mark.skipif(not IS_ROOT, reason="needs root, who can be somebody else")
@pytest.mark.parametrize(("mask", "readable"), [(0o022, True), pytest.param(0o077, False, marks=pytest.mark.slow)])
def test_a_colleague_reads_what_the_umask_allows(place: Path, mask: int, *, readable: bool) -> None:
    results = made(place, mask)
    run = str(results / "small" / "latest")
    lines = (["report", run], ["status", run], ["report", run, "--json"], ["history", "--results", str(results)])
    for words in lines:
        called(words)  # what it imports is read by root
    with colleague():
        found = [called(words) for words in lines]
    assert all((said.returncode == 0) == readable for said in found), [said.stderr for said in found]
    assert not any("Traceback" in said.stderr or "internal error" in said.stderr for said in found)
    (lock,) = results.rglob(SECRET)  # to open it for reading would be enough to flock it
    with colleague(), pytest.raises(PermissionError):
        os.open(lock, os.O_RDONLY)
