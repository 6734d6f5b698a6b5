"""``fabric report`` and ``fabric history`` as a user types them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fabric.app import status as statuses
from fabric.cli.main import main
from fabric.runs.run_lock import holding
from tests.cli.command_line import called
from tests.report.shown import run_of
from tests.runs.other_account import place, shut
from tests.runs.small_run import begin, ended, killed
from tests.runs.small_run import run_of as small_run_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts, one RNIC slow."""
    return run_of(tmp_path_factory.mktemp("cli"), hosts="gpu[001-002]", faults=("gpu002/mlx5_3:slow=0.6",))


def fabric(*words: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], standalone_mode=False)


@pytest.mark.slow
def test_html_is_made_again_after_it_was_deleted(run: Path) -> None:
    for name in ("report.html", "junit.xml", "metrics.prom", "summary.md"):
        (run / name).unlink()
    done = fabric("report", run, "--html")
    assert done.output.strip() == str(run / "report.html")
    assert all((run / name).is_file() for name in ("report.html", "junit.xml", "metrics.prom", "summary.md"))


@pytest.mark.slow
def test_tabs_of_a_tool_are_blanks_in_its_output(run: Path) -> None:
    said = fabric("report", run, "--probe", "intra-host/gpu002/loopback.mlx5_3.gpu0").output
    assert "\\t" not in said
    assert " Number of qps   : 1            Transport type : IB" in said


@pytest.mark.slow
def test_a_run_that_goes_on_is_told_before_what_it_measured_until_now(run: Path) -> None:
    with holding(run.parent.parent, run.parent.name, ["gpu001"], run=run.name):
        said = called(["report", str(run)])
    assert said.stderr.startswith(f"{run} is going on (")
    assert f"fabric status {run}" in said.stderr
    assert called(["report", str(run)]).stderr == ""


def test_csv_goes_to_standard_output(run: Path) -> None:
    lines = fabric("report", run, "--csv").output.splitlines()
    assert lines[0].startswith("probe,phase,round")
    assert len(lines) > 286


def test_schema_needs_no_run() -> None:
    assert json.loads(fabric("report", "--schema").output)["properties"]["format"] == {"const": 1}


def test_no_run_is_a_usage_error() -> None:
    assert "which run" in str(fabric("report").exception)


def test_history_is_one_json_document(run: Path) -> None:
    document = json.loads(fabric("history", "gpu002/mlx5_3", "--results", run.parent.parent, "--json").output)
    assert document["runs"][0]["suspected"] == ["gpu002/mlx5_3"]
    assert document["runs"][0]["share"] is not None


def test_a_scenarios_results_stand_for_its_newest_run(run: Path) -> None:
    shown = fabric("report", run.parent, "--json").output
    assert json.loads(shown)["run_id"] == run.name
    (run.parent / "latest").rename(run.parent.parent / "away")
    try:
        assert fabric("report", run.parent, "--json").output == fabric("report", run, "--json").output
    finally:
        (run.parent.parent / "away").rename(run.parent / "latest")


def test_a_folder_without_runs_is_said_to_be_none(tmp_path: Path) -> None:
    assert str(tmp_path) in str(fabric("report", tmp_path).exception)


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
    results, run = place / "results", small_run_of(place)
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
