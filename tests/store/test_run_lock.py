"""One run of a scenario and on a host at a time; the lock of a dead holder is taken over, a living holder's never."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.store import run_lock
from fabric.store.lock_holder import Holder, holds, myself, read_holder, to_json
from fabric.store.run_lock import FILE, GONE_S, holding, running


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


def test_a_run_on_other_hosts_may_go_on_beside_it(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]), holding(tmp_path, "t", ["h2"]):
        assert (tmp_path / "t" / FILE).exists()


def test_it_is_free_afterwards_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trouble"), holding(tmp_path, "s", ["h1"]):
        raise ValueError("trouble")
    with holding(tmp_path, "s", ["h1"]):
        pass
    assert not (tmp_path / "s" / FILE).exists()


def test_who_runs_a_run_is_known_by_its_name_only(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]) as lock:
        lock.names(tmp_path / "s" / "one")
        found = running(tmp_path / "s" / "one")
        assert found is not None
        assert found.pid == os.getpid()
        assert running(tmp_path / "s" / "two") is None
    assert running(tmp_path / "s" / "one") is None


def dead() -> Holder:
    """A process of this kernel that is no more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return replace(myself("s/dead", ["h1"], "n"), pid=ended.pid, started="1")


def left_by(results: Path, holder: Holder, *, age_s: float = 0.0) -> None:
    """A lock that nobody let go."""
    folder = results / "s"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(to_json(holder))
    at_s = (folder / FILE).stat().st_mtime - age_s
    os.utime(folder / FILE, (at_s, at_s))


def test_the_lock_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    left_by(tmp_path, dead())
    assert running(tmp_path / "s" / "dead") is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_another_process_of_the_same_number_is_not_the_holder() -> None:
    assert not holds(replace(myself("s", [], "n"), started="1"), 0.0, gone_s=GONE_S)


ELSEWHERE = Holder("s/far", "login2", "another boot", 1, "1", "n", ("h1",))


def test_a_holder_on_another_machine_is_alive_as_long_as_its_heart_beats(tmp_path: Path) -> None:
    left_by(tmp_path, ELSEWHERE, age_s=GONE_S / 2)
    with pytest.raises(StoreError, match=r"s/far is going on .login2, process 1"), holding(tmp_path, "t", ["h1"]):
        pass


def test_a_holder_on_another_machine_is_gone_after_the_limit(tmp_path: Path) -> None:
    left_by(tmp_path, ELSEWHERE, age_s=GONE_S + 5.0)
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_a_lock_that_is_no_lock_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / FILE).write_text("torn {")
    assert read_holder(tmp_path / "s" / FILE) is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_who_lost_its_lock_is_told_and_leaves_it_to_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.01)
    told = Event()
    with holding(tmp_path, "s", ["h1"], on_lost=told.set) as lock:
        (tmp_path / "s" / FILE).write_bytes(to_json(ELSEWHERE))
        assert told.wait(20.0)
        assert lock.lost == "login2, process 1"
    assert read_holder(tmp_path / "s" / FILE) is not None


def test_the_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.01)
    with holding(tmp_path, "s", ["h1"]):
        os.utime(tmp_path / "s" / FILE, (1.0, 1.0))
        for _ in range(2000):
            if (tmp_path / "s" / FILE).stat().st_mtime > 2.0:
                return
            Event().wait(0.01)
    raise AssertionError("no heartbeat within 20 s")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"), holding(tmp_path / "file", "s", []):
        pass


def test_who_is_at_work_is_known_in_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "s" / "one")
    with holding(tmp_path, "s", ["h1"], run="one"):
        assert running(Path()) is not None
    assert running(Path()) is None
