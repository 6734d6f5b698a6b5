"""One run of a scenario and on a host at a time; a lock counts as long as its holder lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from fabric.errors import StoreError
from fabric.runs.run_lock import FILE, holder_of, holding, running


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
