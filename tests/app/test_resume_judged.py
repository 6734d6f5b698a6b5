"""What was judged of an interruption is gone before the run goes on; a run at work or ended is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.app import resume as resuming
from fabric.app import run as app
from fabric.app.analyze import analyze
from fabric.app.status import status
from fabric.errors import ConfigError, StoreError
from fabric.model.outcome import Outcome
from fabric.runs.manifest import JUDGED
from fabric.runs.run_lock import holding
from tests.runs.small_run import finished, go_on, killed


class Killed(BaseException):
    """A signal that nothing in the program can catch."""


def judged_early(folder: Path) -> Path:
    """A run that was interrupted, judged then with all its reports, and more besides."""
    run = killed(folder, which=3)
    analyze(run, baseline_path=None, rewrite=True)
    for name in ("acceptance.json", "compare.html"):
        (run / name).write_text("of an earlier interruption")
    (run / "certificate.json").write_text("signed")
    return run


def test_nothing_that_was_judged_earlier_outlives_a_kill_between_the_end_and_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = judged_early(tmp_path)
    assert {name for name in JUDGED if (run / name).exists()} == {*JUDGED} - {"samples.parquet"}  # of older versions
    told = status(run)
    assert (told.judged, told.outcome) == (True, "error")

    def died(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(app, "write_derived", died)
        with pytest.raises(Killed):
            go_on(tmp_path)
    assert [name for name in JUDGED if (run / name).exists()] == []
    assert (run / "certificate.json").exists()  # it says what it is about
    assert len(finished(run)) == 6
    told = status(run)
    assert (told.state, told.judged, told.outcome) == ("ended", False, "")
    with pytest.raises(ConfigError, match=f"is not judged yet: fabric analyze {run}"):
        go_on(tmp_path)
    assert analyze(run, baseline_path=None, rewrite=True).verdict.outcome is Outcome.PASS
    assert status(run).outcome == "pass"


def test_what_was_judged_earlier_goes_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also durably: the folder is synced behind the last removal and before the first line."""
    run = judged_early(tmp_path)
    size = (run / "events.jsonl").stat().st_size
    seen = []

    def synced(folder: Path) -> None:
        left = [name for name in JUDGED if (run / name).exists()]
        seen.append((folder, left, (run / "events.jsonl").stat().st_size))

    monkeypatch.setattr("fabric.runs.plain_file.sync_folder", synced)
    go_on(tmp_path)
    assert (run, [], size) in seen


def test_what_was_judged_earlier_and_cannot_go_stops_it_before_it_measures(tmp_path: Path) -> None:
    run = judged_early(tmp_path)
    (run / "summary.md").unlink()
    (run / "summary.md").mkdir()  # as little to be removed as a file of somebody else in a sticky folder
    before = (run / "events.jsonl").read_bytes()
    with pytest.raises(StoreError, match=r"summary\.md: cannot remove: .*nothing was measured"):
        go_on(tmp_path)
    assert (run / "events.jsonl").read_bytes() == before
    assert not status(run).judged
    (run / "summary.md").rmdir()
    assert go_on(tmp_path).verdict.outcome is Outcome.PASS


@pytest.mark.parametrize("other", [False, True], ids=["this run", "another of the scenario"])
def test_a_run_that_goes_on_is_refused_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    run = killed(tmp_path, "finished", 2)
    monkeypatch.setattr(resuming, "plan_scenario", None)
    with (
        holding(tmp_path / "results", "small", ["gpu001"], run="another" if other else run.name),
        pytest.raises(StoreError, match="is going on"),
    ):
        resuming.look(run, force=False)
