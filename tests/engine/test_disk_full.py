"""The disk is full from the k-th write of a run on, for every k: a clear error, nothing lost, and the run goes on."""

from pathlib import Path

import pytest

from fabric.errors import FabricError, MayBeLive, StoreError
from fabric.model.outcome import Outcome
from fabric.runs import events, line_log, plain_file, run_directory
from fabric.runs.journal import open_changes
from tests.runs.full_disk import FullDisk
from tests.runs.small_run import EVERY_5_S, begin, begun_after, finished, go_on, run_of, scenario

pytestmark = pytest.mark.slow


def with_disk(disk: FullDisk, patch: pytest.MonkeyPatch) -> None:
    """Every part of the store that writes while a run goes on."""
    for module in (plain_file, line_log, run_directory):
        patch.setattr(module, "os", disk.namespace())


def writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many writes a whole run makes."""
    disk = FullDisk(10**9)
    with monkeypatch.context() as patch:
        with_disk(disk, patch)
        begin(tmp_path, file=scenario(tmp_path, sample=EVERY_5_S))
    return disk.calls


@pytest.mark.timeout(300)
@pytest.mark.parametrize("short", [False, True], ids=["none", "half"])
def test_a_full_disk_at_each_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool) -> None:
    """Until a write is acknowledged the step that follows from it is not taken; a change is back when the run ends."""
    count = writes(tmp_path / "whole", monkeypatch) if (tmp_path / "whole").mkdir() is None else 0
    assert count > 40
    for k in range(1 + 2 * short, count + 1, 4):  # every fourth, and with half a write those between
        folder = tmp_path / str(k)
        folder.mkdir()
        scenario(folder, sample=EVERY_5_S)
        disk = FullDisk(k, short=short)
        with monkeypatch.context() as patch:
            with_disk(disk, patch)
            with pytest.raises((StoreError, MayBeLive), match=r"No space left|fabric restore"):
                begin(folder)
        assert disk.failed
        goes_on(folder, k)


def goes_on(folder: Path, k: int) -> None:
    """With room again it resumes, or had not even begun, or needed only its reports."""
    if not list((folder / "results" / "small").glob("2*/run.json")):
        assert begin(folder).verdict.outcome is Outcome.PASS, k
        return
    run = run_of(folder)
    before = finished(run)
    seen = len(list(events.read_events(run / "events.jsonl"))) if (run / "events.jsonl").exists() else 0
    over = seen and any(e["event"] == "run_ended" for e in events.read_events(run / "events.jsonl"))
    if over:
        with pytest.raises(FabricError, match="has ended"):
            go_on(folder)
        assert len(before) == 6, k
        return
    assert go_on(folder).verdict.outcome is Outcome.PASS, k
    assert {name: finished(run)[name] for name in before} == before, k
    assert not begun_after(run, seen).intersection(before), k
    assert len(finished(run)) == 6
    if (run / "changes.jsonl").exists():
        assert open_changes(run / "changes.jsonl") == ()
