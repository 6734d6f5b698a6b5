"""``fabric status`` and ``fabric history`` as a user types them: their words and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabric.app import status as statuses
from fabric.runs.run_lock import holding
from tests.cli.command_line import called
from tests.runs.other_account import place, shut
from tests.runs.small_run import begin, ended, killed, run_of

__all__ = ["place"]


def test_a_run_that_ended_unjudged_names_the_command_that_judges_it(tmp_path: Path) -> None:
    run = ended(tmp_path)
    (run / "verdict.json").unlink()
    said = called(["status", str(run)])
    assert said.stdout.startswith(f"{run}: ended, not judged yet\n")
    assert f"next       fabric analyze {run}" in said.stdout
    assert "not judged yet" in called(["status", "--results", str(tmp_path / "results")]).stdout
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        assert ", being judged\n" in called(["status", str(run)]).stdout
    assert called(["analyze", str(run)]).returncode == 0
    assert called(["status", str(run)]).stdout.startswith(f"{run}: ended, pass\n")


def test_a_large_run_says_what_judges_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = killed(tmp_path, "finished", 3)
    monkeypatch.setattr(statuses, "MOST_JUDGED", 5)
    words = "too many probes to judge at a look: fabric"
    assert f"{words} analyze {run} judges them" in called(["status", str(run)]).stdout
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        assert f"{words} report {run} judges them" in called(["status", str(run)]).stdout
    assert json.loads(called(["status", str(run), "--json"]).stdout)["suspects"] is None


def test_some_runs_that_cannot_be_read_are_exit_3_and_the_folder_itself_exit_2(place: Path) -> None:
    begin(place)
    results, run = place / "results", run_of(place)
    for folder in (results, run.parent, run):
        folder.chmod(0o755)
    for file in run.iterdir():
        file.chmod(0o755)
    (results / "other").mkdir()
    for command in ("status", "history"):
        words = [command, "--results", str(results)]
        assert called(words).returncode == 0
        with shut(results / "other"):
            said = called(words)
        assert (said.returncode, run.name in said.stdout, "Permission denied" in said.stdout) == (3, True, True)
        with shut(results):
            said = called(words)
        assert (said.returncode, said.stderr.startswith(f"{results}: cannot read: Permission denied")) == (2, True)
