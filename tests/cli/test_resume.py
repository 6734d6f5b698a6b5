"""``fabric resume``, ``status`` and ``stop``: in processes of their own where two must meet, else in this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.killed_runs import ended, only_run, spawned, words, write_scenario
from fabric.runs.run_lock import holding
from tests.cli.command_line import called
from tests.places import INVENTORY
from tests.runs.small_run import begin, cut_after, finished, killed, run_of, scenario
from tests.runs.waiting import wait_until


def fabric(*words: str) -> tuple[int, str]:
    """Exit code and what was printed, in this process."""
    said = called(words)
    return said.returncode, said.stdout + said.stderr


def fabric_anew(tmp_path: Path, *words: str) -> tuple[int, str]:
    """The same, in a process of its own."""
    output = tmp_path / "said.txt"
    code = ended(spawned(words, output))
    return code, output.read_text()


@pytest.mark.slow
def test_resume_goes_on_and_ends_as_the_verdict_says(tmp_path: Path) -> None:
    killed(tmp_path, which=3)
    code, said = fabric_anew(tmp_path, "resume", str(tmp_path / "results" / "small"), "--no-html")
    assert (code, len(finished(run_of(tmp_path)))) == (0, 6)
    assert "4 probes are done and kept" in said
    assert "PASS  small" in said


def test_resume_says_of_limits_above_the_line_what_run_says(tmp_path: Path) -> None:
    """With RNICs of half the rate the limits of the baseline cannot be met, and judge nothing."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    rack = (INVENTORY / "demo-rack-healthy.yaml").read_text("utf-8")
    slower = tmp_path / "slower.yaml"
    slower.write_text(rack.replace("line_rate_gbps: 400", "line_rate_gbps: 200"), "utf-8")
    file = scenario(tmp_path)
    file.write_text(file.read_text("utf-8").replace(str(INVENTORY / "demo-rack-healthy.yaml"), str(slower)))
    begin(tmp_path, file=file)
    cut_after(run_of(tmp_path), "finished", 3)
    code, said = fabric("resume", str(run_of(tmp_path)), "--no-html")
    assert code in (0, 3)
    assert "note: limits that ask for the line rate or more judge nothing: platform " in said


def test_what_is_said_to_go_on_can_be_typed(tmp_path: Path) -> None:
    """A run that alters real hosts, begun with --yes: nobody is there to be asked, so it goes on with --yes alone."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    rack = (INVENTORY / "demo-rack-healthy.yaml").read_text("utf-8").replace("backend: mock", "backend: process")
    (tmp_path / "dead.yaml").write_text(rack.replace('[ip, netns, exec, "{host}"]', "[sh, -c, exit 255, '{host}']"))
    options = ("--inventory", str(tmp_path / "dead.yaml"), "--results", str(tmp_path / "results"), "--no-html")
    assert fabric("run", str(scenario(tmp_path)), *options)[0] == 2
    assert fabric("run", str(scenario(tmp_path)), *options, "--yes")[0] == 3
    cut_after(run_of(tmp_path), "phase_started")
    for command in ("status", "stop", "report"):
        said = fabric(command, str(run_of(tmp_path)))[1]
        assert f"fabric resume {run_of(tmp_path)} --yes" in said
    assert fabric("resume", str(run_of(tmp_path)), "--no-html")[0] == 2
    assert fabric("resume", str(run_of(tmp_path)), "--no-html", "--yes")[0] == 3


@pytest.mark.slow
def test_stop_ends_a_run_of_another_process_which_can_go_on(tmp_path: Path) -> None:
    """A rack with many probes, so that it is still at it; the wish is heeded within a second of its clock."""
    write_scenario(tmp_path)
    results = tmp_path / "results"
    pid = spawned(words(tmp_path, results), tmp_path / "run.txt")
    try:
        wait_until(lambda: only_run(results) is not None)
        run = only_run(results)
        assert run is not None
        code, said = fabric_anew(tmp_path, "stop", str(run), "--json")
    finally:
        status = ended(pid)
    found = json.loads(said)
    assert (code, found["ended"], found["still_open"]) == (0, True, [])
    assert status == (1 if found["finished"] else 3)


def test_a_second_run_on_the_same_hosts_is_refused_and_names_the_first(tmp_path: Path) -> None:
    file = scenario(tmp_path)
    with holding(tmp_path / "results", "other", ["gpu002", "gpu007"], run="first"):
        code, said = fabric_anew(tmp_path, "run", str(file), "--results", str(tmp_path / "results"))
    assert (code, "other/first is going on" in said, "holds gpu002" in said) == (3, True, True)
    assert "fabric status" in said
    assert not list(tmp_path.glob("results/small/2*"))
