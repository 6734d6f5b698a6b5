"""One run of a scenario and on a host at a time; a lock counts until its holder is certainly gone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.runs import durable
from fabric.runs.run_lock import FILE, Holder, holder_bytes, holder_of, holding, myself, running
from tests.runs.full_disk import full_disk


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
    """A process of this machine that is no more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return replace(myself("s/dead", ["h1"]), pid=ended.pid, started="1")


def left_by(results: Path, holder: Holder) -> Path:
    """A lock that nobody let go."""
    folder = results / "s"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(holder_bytes(holder))
    return folder / FILE


def test_the_lock_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    left_by(tmp_path, dead())
    assert running(tmp_path / "s" / "dead") is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_another_process_of_the_same_number_is_not_the_holder() -> None:
    assert not myself("s", []).is_gone
    assert replace(myself("s", []), started="1").is_gone


def test_a_lock_of_this_machine_from_before_it_was_booted_is_taken_over(tmp_path: Path) -> None:
    left_by(tmp_path, replace(myself("s/dead", ["h1"]), boot="another boot"))
    with holding(tmp_path, "s", ["h1"]):
        pass


ELSEWHERE = Holder("s/far", "login2", "another boot", "pid:[1]", 1, "1", "2026-01-01 00:00:00 UTC", ("h1",))
IN_A_CONTAINER = replace(myself("s/far", ["h1"]), processes="pid:[1]", machine="c0ffee")


@pytest.mark.parametrize("holder", [ELSEWHERE, IN_A_CONTAINER])
def test_a_holder_that_cannot_be_seen_from_here_refuses_until_a_person_removes_its_lock(
    tmp_path: Path, holder: Holder
) -> None:
    """It says who holds it, since when, and how to remove it."""
    lock = left_by(tmp_path, holder)
    who = f"{holder.machine}, process {holder.pid}, since {holder.since}"
    by_hand = f"where {holder.machine} certainly runs it no more: rm {lock}"
    with pytest.raises(StoreError) as refused, holding(tmp_path, "t", ["h1"]):
        pass
    assert f"s/far is going on ({who}) and holds h1" in str(refused.value)
    assert str(refused.value).endswith(by_hand)
    lock.unlink()
    with holding(tmp_path, "t", ["h1"]):
        pass


def test_a_lock_that_is_no_lock_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / FILE).write_text("torn {")
    assert holder_of(tmp_path / "s" / FILE) is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_who_lost_its_lock_leaves_it_to_the_other(tmp_path: Path) -> None:
    """A person removed it, and another run began."""
    with holding(tmp_path, "s", ["h1"]):
        (tmp_path / "s" / FILE).write_bytes(holder_bytes(ELSEWHERE))
    assert holder_of(tmp_path / "s" / FILE) == ELSEWHERE


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


def test_it_is_free_also_where_its_run_could_not_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may leave the lock without the name of its run."""
    with holding(tmp_path, "s", ["h1"]) as lock, monkeypatch.context() as patch:
        patch.setattr(durable, "os", full_disk("write"))
        with pytest.raises(StoreError, match="No space left"):
            lock.names(tmp_path / "s" / "one")
    assert not (tmp_path / "s" / FILE).exists()
