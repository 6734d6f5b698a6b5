"""``fabric run``, ``resume``, ``stop`` and ``watch``: what they refuse and what they say."""

import json
import shutil
from pathlib import Path

import pytest
from click import unstyle

from benchmarks.killed_runs import ended, only_run, spawned, words, write_scenario
from fabric.app.status import HostState, PhaseProgress, RunStatus
from fabric.cli.status import screen
from fabric.runs.run_lock import holding
from tests.cli.command_line import called
from tests.places import CAPTURES, INVENTORY, SCENARIOS
from tests.runs.small_run import begin, cut_after, finished, killed, run_of, scenario, wait_until

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


def test_a_time_is_refused_after_a_repair(tmp_path: Path) -> None:
    said = called(["run", str(POST_REPAIR), "--because", str(tmp_path), "--for", "48h"])
    assert said.returncode == 2
    assert "--for: not with --because" in said.stderr


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


@pytest.mark.slow
def test_a_second_run_on_the_same_hosts_is_refused_and_names_the_first(tmp_path: Path) -> None:
    file = scenario(tmp_path)
    with holding(tmp_path / "results", "other", ["gpu002", "gpu007"], run="first"):
        code, said = fabric_anew(tmp_path, "run", str(file), "--results", str(tmp_path / "results"))
    assert (code, "other/first is going on" in said, "holds gpu002" in said) == (3, True, True)
    assert "fabric status" in said
    assert not list(tmp_path.glob("results/small/2*"))


def test_one_screen_of_a_run_that_ended(tmp_path: Path) -> None:
    begin(tmp_path)
    found = called(["watch", str(run_of(tmp_path))])
    assert found.returncode == 0
    assert "small: ended" in found.stdout
    assert "6 of 6 probes (100 %)" in found.stdout


def test_no_run_yet_is_an_error_with_the_folder(tmp_path: Path) -> None:
    found = called(["watch", "--results", str(tmp_path)])
    assert found.returncode == 2
    assert "no run here yet" in found.stderr


def test_2048_hosts_fit_and_who_is_not_well_has_a_name() -> None:
    hosts = dict.fromkeys((f"gpu{n:04d}" for n in range(1, 2049)), HostState.WELL)
    hosts |= {"gpu0017": HostState.FAILED, "gpu1500": HostState.OUT}
    seen = RunStatus(
        "results/x/1",
        "x",
        "running",
        done=10,
        planned=100,
        left_s=540.0,
        at_s=60.0,
        phases=(PhaseProgress("soak", 100, 10, failed=2),),
        hosts=hosts,
        named={"gpu0017/mlx5_3": 2},
        out={"gpu1500": "silent\x1b[31m"},
    )
    lines = [unstyle(line) for line in screen(seen, width=120)]
    assert len(lines) < 45
    assert any(line.startswith("failed") and "gpu0017" in line for line in lines)
    assert any("about 9 min" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert "2 failed" in "\n".join(lines)


RACK = """\
name: two
backend: process
platforms:
  one:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 1
    gpus: [{{index: 0-7, numa: 0}}]
    rnics: [{{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}}]
    tools: {{mpirun: {mpirun}}}
    {env}
hosts:
  - {{names: "gpu[1-2]", platform: one, leaves: leaf0}}
switches:
  - {{names: leaf0, tier: leaf}}
process: {{prefix: []}}
"""
SCENARIO = """\
name: rail
inventory: rack.yaml
hosts: all
phases:
  - {name: pair, probes: [{group_all_reduce: {hosts: 2, sizes: [8G]}}]}
"""
NO_WARNING = "gpu2: Test NCCL failure common.cu:1279 'remote process exited or there was a network error / '"
MPIRUN = f"""\
#!/bin/sh
# As NCCL: a warning only where NCCL_DEBUG asks for one (src/debug.cc), then what nccl-tests says of it.
case "$*" in *NCCL_DEBUG=WARN*) cat {{log}};; esac
echo "{NO_WARNING}"
exit 3
"""
LOGS = (
    "36-FAIL-nccl-issue1698-status12-recv-4.12.txt",
    "37-FAIL-nccl-issue1405-status12-ib_plugin.txt",
    "39-FAIL-ncclRemoteError-exception-text-2.14.3.txt",
)


def ran(folder: Path, log: Path, env: str = "") -> tuple[int, dict[str, object]]:
    """Exit code and verdict of an all-reduce that ends as *log*."""
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    mpirun = folder / "mpirun"
    mpirun.write_text(MPIRUN.format(log=log), "utf-8")
    mpirun.chmod(0o755)
    (folder / "rack.yaml").write_text(RACK.format(mpirun=mpirun, env=env), "utf-8")
    (folder / "rail.yaml").write_text(SCENARIO, "utf-8")
    said = called(["run", "rail.yaml", "--no-html", "--yes", "--json"], cwd=folder)
    verdict: dict[str, object] = json.loads(said.stdout)
    return said.returncode, verdict


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_a_dead_rail_is_the_fabrics_failure(tmp_path: Path, log: str) -> None:
    """NCCL's own warning names it, and is printed because the product asks for it."""
    code, verdict = ran(tmp_path, CAPTURES / "nccl-tests" / log)
    assert (code, verdict["outcome"]) == (1, "fail")


def test_without_a_warning_nobody_is_blamed(tmp_path: Path) -> None:
    """The same words are said of a peer whose process ended: a site that asks for no warnings gets an error."""
    code, verdict = ran(tmp_path, CAPTURES / "nccl-tests" / LOGS[0], env="env: {NCCL_DEBUG: VERSION}")
    assert (code, verdict["outcome"]) == (3, "error")
