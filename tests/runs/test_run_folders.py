"""The runs below a folder; what cannot be looked into is told, and is not taken for no runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.errors import ConfigError
from fabric.runs.run_directory import RunDirectory, run_folders, run_path
from tests.runs.other_account import place, shut

__all__ = ["place"]


def runs(results: Path, *names: str) -> list[Path]:
    """Folders of runs with nothing in them but the file that makes them one."""
    made = []
    for name in names:
        (results / name).mkdir(parents=True)
        (results / name / "run.json").write_text("{}")
        made.append(results / name)
    return made


def test_runs_begun_at_once_in_different_results_have_ids_of_their_own(tmp_path: Path) -> None:
    """Guards know by it whose change they hold."""
    made = [RunDirectory.create(tmp_path / str(number), "drill", {}) for number in range(20)]
    for one in made:
        one.close()
    names = [one.path.name for one in made]
    assert sorted(set(names)) == names


def test_every_run_is_found_once_and_in_order(tmp_path: Path) -> None:
    wanted = runs(tmp_path, "a/1", "a/2", "b/1")
    (tmp_path / "a" / "latest").symlink_to("2")
    (tmp_path / "a" / "3").mkdir()
    (tmp_path / "notes.txt").touch()
    found = run_folders(tmp_path)
    assert (found.runs, found.closed) == (wanted, {})


def test_a_shut_scenario_and_a_shut_run_are_told_beside_the_others(place: Path) -> None:
    first, second, third = runs(place, "a/1", "a/2", "b/1")
    with shut(second, third.parent):
        found = run_folders(place)
    assert found.runs == [first]
    assert found.closed == {second: "Permission denied", third.parent: "Permission denied"}


def test_a_run_that_is_meant_and_shut_is_not_said_to_be_none(place: Path) -> None:
    (run,) = runs(place, "a/1")
    for named, closed in ((run, run), (run.parent, run.parent), (run.parent, run)):
        with shut(closed), pytest.raises(ConfigError, match="cannot read: Permission denied"):
            run_path(named)
    assert run_path(run.parent) == run
