"""The headline and the first commands of a run that goes on, that ended early, and that ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.report.changes import after_change
from fabric.report.markdown import summary
from fabric.report.meaning import commands, meaning
from fabric.report.page import page
from fabric.report.shown_run import ShownRun
from fabric.runs.run_lock import holding
from tests.cli.command_line import called
from tests.runs.small_run import begin, cut_journal, killed, run_of

NEVER = ("fabric resume", "ended before", "interrupted", "fabric restore")
"""Words that are wrong while a run goes on: it is refused, or not so."""


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run that came half way, with its change in force, and is not judged."""
    killed(tmp_path, "finished", 3)
    cut_journal(run_of(tmp_path), "in_force")
    return run_of(tmp_path)


def going_on(run: Path) -> ShownRun:
    """It, while somebody works on it."""
    with holding(run.parent.parent, run.parent.name, ["gpu001"], run=run.name):
        return reopened(run)


def test_a_run_that_goes_on_says_so_and_names_what_may_be_typed(half: Path) -> None:
    judged = going_on(half).judged
    assert (judged.goes_on, judged.complete) == (True, False)
    assert meaning(judged).endswith("the run goes on, and this is what was measured until now")
    assert commands(judged) == (("How far", f"fabric status {half}"), ("End it", f"fabric stop {half}"))
    assert judged.verdict.reasons[0] == "the run goes on: what it has not reached yet is not judged"


def test_a_run_that_ended_early_is_still_gone_on_with(half: Path) -> None:
    judged = reopened(half).judged
    assert not judged.goes_on
    assert "the run ended before everything was measured" in meaning(judged)
    assert ("Go on", f"fabric resume {half}") in commands(judged)


def test_no_report_of_a_run_that_goes_on_asks_to_go_on_with_it(half: Path) -> None:
    run = going_on(half)
    with holding(half.parent.parent, half.parent.name, ["gpu001"], run=half.name):
        console = called(["report", str(half)]).stdout
    for text in (console, page(run), summary(run)):
        assert [words for words in NEVER if words in text] == []
        assert "goes on" in text or "went on" in text


def test_a_run_whose_end_is_written_goes_on_no_more_though_its_reports_are_being_made(tmp_path: Path) -> None:
    begin(tmp_path)
    judged = going_on(run_of(tmp_path)).judged
    assert (judged.goes_on, judged.complete) == (False, True)


def test_a_change_in_force_is_not_to_be_taken_back_by_hand_while_its_run_goes_on(half: Path) -> None:
    judged = going_on(half).judged
    assert [one.state for one in judged.verdict.changes] == ["open"]
    assert meaning(judged).startswith("1 change may be live while it goes on; the run goes on")
    (change,) = judged.verdict.changes
    assert "fabric restore" not in after_change(change, judged)
    dead = replace(judged, goes_on=False)
    assert "fabric restore" in after_change(change, dead)
    assert commands(dead)[0] == ("Take back", f"fabric restore {half}")
