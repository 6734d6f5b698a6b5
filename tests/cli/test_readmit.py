"""``fabric readmit`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from fabric.engine.left_out import FOLDER, answered, asked
from fabric.runs.events import EventLog
from tests.cli.command_line import Said, called
from tests.runs.small_run import begin, cut_after, run_of


def readmit(*words: str) -> Said:
    """As a person calls it."""
    return called(("readmit", *words))


def killed(folder: Path) -> Path:
    """A run that died, after a host had stopped answering."""
    begin(folder)
    run = run_of(folder)
    cut_after(run, "finished", 3)
    events = EventLog(run / "events.jsonl")
    events.append("out", 1000.0, {"component": "gpu001", "reason": "no route to host"})
    events.close()
    return run


def test_a_host_that_the_run_does_not_have_is_exit_2_with_the_nearest_word(tmp_path: Path) -> None:
    said = readmit(str(killed(tmp_path)), "gpu01")
    assert said.returncode == 2
    assert "did you mean 'gpu001'" in said.stderr
    assert not (run_of(tmp_path) / FOLDER).exists()


def test_a_host_that_is_out_is_asked_back_and_when_is_said(tmp_path: Path) -> None:
    run = killed(tmp_path)
    said = readmit(str(run), "gpu001", "--json")
    assert (said.returncode, said.stderr) == (0, "")
    document = json.loads(said.stdout)
    assert (document["hosts"], document["at_work"], document["exit_code"]) == (["gpu001"], False, 0)
    assert asked(run) == ["gpu001"]
    assert f"when it goes on: fabric resume {run}" in readmit(str(run), "gpu001").stdout


def test_one_bad_name_of_two_asks_for_nothing(tmp_path: Path) -> None:
    run = killed(tmp_path)
    said = readmit(str(run), "gpu001", "nobody")
    assert said.returncode == 2
    assert asked(run) == []


def test_a_set_of_hosts_is_taken_as_the_option_hosts_takes_it(tmp_path: Path) -> None:
    run = killed(tmp_path)
    events = EventLog(run / "events.jsonl")
    events.append("out", 1001.0, {"component": "gpu002", "reason": "no route to host"})
    events.close()
    said = readmit(str(run), "gpu[001,002]")
    assert said.returncode == 0
    assert "gpu[001-002] will take part again" in said.stdout
    assert asked(run) == ["gpu001", "gpu002"]
    document = json.loads(readmit(str(run), "all", "gpu002", "--json").stdout)
    assert document["hosts"] == ["gpu001", "gpu002"]


def test_everything_that_is_wrong_with_sets_is_said_at_once(tmp_path: Path) -> None:
    said = readmit(str(killed(tmp_path)), "gpu[001-", "gpu[002-003]")
    assert said.returncode == 2
    assert "a set of names such as" in said.stderr
    assert "gpu002 takes part" in said.stderr
    assert "no host 'gpu003' in this run" in said.stderr


def test_a_wish_that_leads_elsewhere_is_none(tmp_path: Path) -> None:
    """A folder READMIT that is a link names no hosts, and nothing is removed behind it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "gpu001").touch()
    run = tmp_path / "run"
    run.mkdir()
    (run / FOLDER).symlink_to(elsewhere)
    assert asked(run) == []
    answered(run, ["gpu001"])
    assert [file.name for file in elsewhere.iterdir()] == ["gpu001"]
