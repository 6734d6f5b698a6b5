"""``fabric run``: what it refuses and what it says before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import called
from tests.places import SCENARIOS

POST_REPAIR = SCENARIOS / "post-repair.yaml"
SELF_CHECK = SCENARIOS / "self-check.yaml"


def test_a_validation_without_the_failed_run_is_refused_before_anything_runs(tmp_path: Path) -> None:
    said = called(["run", str(POST_REPAIR), "--results", str(tmp_path / "results"), "--json"])
    line = 1 + POST_REPAIR.read_text().splitlines().index(
        "      - again: {repeat: 5}               # the very probes that did not pass in the run of --because"
    )
    assert said.returncode == 2
    assert f"{POST_REPAIR}:{line}: 'again' measures again what failed" in said.stderr
    assert "--because RUN" in said.stderr
    assert not (tmp_path / "results").exists()


def test_its_plan_is_shown_and_says_what_a_run_needs() -> None:
    said = called(["plan", str(POST_REPAIR)])
    assert said.returncode == 0
    assert "note: no again on gpu[001-008]: it needs a run that failed (fabric run --because RUN)" in said.stdout


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_time_that_would_change_nothing_is_refused(command: str) -> None:
    said = called([command, str(SELF_CHECK), "--for", "48h"])
    assert said.returncode == 2
    assert "--for: no phase of self-check has a share of the whole run" in said.stderr


@pytest.mark.parametrize("option", ["--for", "--budget"])
def test_a_time_is_refused_after_a_repair(tmp_path: Path, option: str) -> None:
    said = called(["run", str(POST_REPAIR), "--because", str(tmp_path), option, "48h"])
    assert said.returncode == 2
    assert f"{option}: not with --because" in said.stderr


def test_a_budget_into_which_nothing_fits_is_refused_with_the_least_that_would_do(tmp_path: Path) -> None:
    words = [str(SELF_CHECK), "--results", str(tmp_path / "results"), "--no-html"]
    said = called(["run", *words, "--budget", "5s"])
    assert said.returncode == 2
    assert "--budget: nothing fits into it: the shortest that can be measured takes 7 s" in said.stderr
    assert not (tmp_path / "results").exists()
    assert called(["plan", str(SELF_CHECK), "--budget", "5s"]).returncode == 0
    assert called(["run", *words, "--hosts", "gpu001", "--budget", "7s"]).returncode == 3


def test_a_run_within_a_budget_says_first_what_it_does_not_cover(tmp_path: Path) -> None:
    words = [str(SELF_CHECK), "--hosts", "gpu[001-002]", "--budget", "1m"]
    planned = called(["plan", *words]).stdout
    said = called(["run", *words, "--results", str(tmp_path / "results"), "--no-html", "--json"])
    told = planned[planned.index("within 1m: ") :].splitlines()
    assert len(told) > 2
    assert [line.removeprefix("note:").strip() for line in said.stderr.splitlines()[: len(told)]] == [
        line.strip() for line in told
    ]
