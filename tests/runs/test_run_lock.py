"""The runs below a folder, and one run of a scenario and on a host at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from fabric.errors import ConfigError, StoreError
from fabric.runs.run_directory import RunDirectory, run_folders, run_path
from fabric.runs.run_lock import FILE, holder_of, holding, running
from tests.runs.other_account import place, shut


def test_a_second_run_of_a_scenario_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with (
        holding(tmp_path, "s", ["h1"], run="one"),
        pytest.raises(StoreError, match=r"s/one is going on .* fabric status"),
        holding(tmp_path, "s", ["h2"]),
    ):
        pass


def test_a_run_of_another_scenario_on_the_same_host_is_refused_and_the_host_is_named(tmp_path: Path) -> None:
    with (
        holding(tmp_path, "s", ["h1", "h2", "h3"], run="one"),
        pytest.raises(StoreError, match=r"holds h\[2-3\]"),
        holding(tmp_path, "t", ["h2", "h3", "h4"]),
    ):
        pass
    assert not (tmp_path / "t" / FILE).exists()


def test_who_runs_a_run_is_known_by_its_name_only(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]) as lock:
        lock.names(tmp_path / "s" / "one")
        found = running(tmp_path / "s" / "one")
        assert found is not None
        assert found.pid == os.getpid()
        assert running(tmp_path / "s" / "two") is None
    assert running(tmp_path / "s" / "one") is None


KEEPS_IT = """
import sys, time
from pathlib import Path
from fabric.runs.run_lock import holding
with holding(Path(sys.argv[1]), "s", ["h1"], run="dead"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KEEPS_IT, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        found = running(tmp_path / "s" / "dead")
        assert found is not None
        assert found.pid == other.pid
        with pytest.raises(StoreError, match=f"process {other.pid}, since .* holds h1"), holding(tmp_path, "t", ["h1"]):
            pass
        other.kill()
        other.wait()
    assert running(tmp_path / "s" / "dead") is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_a_holder_on_another_machine_refuses_until_a_person_removes_its_lock(tmp_path: Path) -> None:
    """Its flock may not be seen from here; it says who holds it, since when, and how to remove it."""
    lock = tmp_path / "s" / FILE
    lock.parent.mkdir()
    lock.write_bytes(orjson.dumps({"run": "s/far", "machine": "login2", "pid": 1, "since": "noon", "hosts": ["h1"]}))
    with pytest.raises(StoreError) as refused, holding(tmp_path, "t", ["h1"]):
        pass
    assert "s/far is going on (login2, process 1, since noon) and holds h1" in str(refused.value)
    assert str(refused.value).endswith(f"where login2 certainly runs it no more: rm {lock}")
    lock.unlink()
    with holding(tmp_path, "t", ["h1"]):
        pass


def test_a_lock_that_is_held_and_cannot_be_read_holds_its_scenario(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]):
        (tmp_path / "s" / FILE).write_text("torn {")
        with pytest.raises(StoreError, match="is of the same scenario"), holding(tmp_path, "s", ["h2"]):
            pass
    assert holder_of(tmp_path / "s" / FILE) is None


def test_who_is_at_work_is_known_in_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "s" / "one")
    with holding(tmp_path, "s", ["h1"], run="one"):
        assert running(Path()) is not None
    assert running(Path()) is None


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
