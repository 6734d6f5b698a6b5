"""The whole product as a job of a real Slurm, on whose nodes a simulated rack answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.namespaces import Namespaces, inside
from benchmarks.lab.rack import TOOLS, Rack, install_stubs, serving
from benchmarks.lab.slurm_site import NEEDED, missing, slurm, slurm_site, until
from fabric.config.inventory import load_inventory
from fabric.model.inventory import Fault
from fabric.runs.journal import drains
from tests.cli.command_line import called
from tests.places import INVENTORY, SCENARIOS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODES = [f"gpu{number:03d}" for number in range(1, 5)]
BAD = Fault("gpu003/mlx5_2", "slow", 0.6)
SCRIPT = """\
#!/bin/bash
#SBATCH --exclusive --time=00:10:00 {more}
export PATH={tools}:$PATH FABRIC_LAB_SOCKET={socket} PYTHONPATH={root}
{python} -c 'from fabric.cli.main import run; run()' run {scenario} --inventory {inventory} \\
  --backend slurm --slurm-job "$SLURM_JOB_ID" --results {results} {words}
echo "exit code $?"
"""


@pytest.fixture(scope="module")
def submit(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Run a scenario as a job on this Slurm, and return what the job printed."""
    if why := missing(*NEEDED):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("jobs")
    inventory = INVENTORY / "pod-64.yaml"
    install_stubs(folder / "tools", [name for name in TOOLS if name not in ("srun", "hostname")])
    spec = (load_inventory(inventory).topology, (BAD,), 1, 0.003, 100.0)
    namespaces = Namespaces(tuple(NODES))
    with ExitStack() as stack:
        stack.callback(namespaces.close)
        namespaces.make()
        stack.enter_context(inside(namespaces.orchestrator))
        socket = stack.enter_context(serving(folder, spec, Rack.program))
        env = stack.enter_context(slurm_site(folder / "slurm", len(NODES), jobs=True, namespaces=namespaces))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in env.items():
            patch.setenv(name, value)

        def submitted(results: Path, words: str, *, more: str, scenario: str = "self-check.yaml") -> str:
            slurm("scontrol", "update", "nodename=gpu003", "state=undrain")
            assert until(lambda: slurm("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(len(NODES)))
            asked = {"tools": folder / "tools", "socket": socket, "python": sys.executable, "root": Path.cwd()}
            asked |= {"scenario": SCENARIOS / scenario, "inventory": inventory, "results": results}
            script = folder / "job.sh"
            script.write_text(SCRIPT.format(**asked, words=words, more=more))
            script.chmod(0o755)
            done = slurm("sbatch", "--wait", f"--output={results}-%a.txt", str(script), timeout_s=240)
            assert done.returncode == 0, done.stderr
            return "".join(path.read_text() for path in sorted(results.parent.glob(f"{results.name}-*.txt")))

        yield submitted


def verdicts(results: Path) -> list[dict[str, Any]]:
    """Of all runs below it."""
    return [json.loads(path.read_text()) for path in sorted(results.glob("*/2*/verdict.json"))]


def test_a_run_as_a_job_drains_the_bad_host(submit: Callable[..., str], tmp_path: Path) -> None:
    """One srun reaches the nodes of the allocation; the verdict drains one of them by the real words."""
    said = submit(tmp_path / "results", "--act drain", more="--nodes=2 --nodelist=gpu[003-004]")
    assert "exit code 1" in said, said
    assert "gpu003: drained (fabric: gpu003/mlx5_2; run self-check/" in said
    (verdict,) = verdicts(tmp_path / "results")
    assert (verdict["backend"], [one["component"] for one in verdict["suspects"]]) == ("slurm", ["gpu003/mlx5_2"])
    reason = drains(tmp_path / "results")["gpu003"]
    assert f" Reason={reason} [" in slurm("scontrol", "show", "node", "-o", "gpu003").stdout


def test_tasks_of_an_array_share_a_results_folder(submit: Callable[..., str], tmp_path: Path) -> None:
    """Each measures the nodes that it was given, at the same time, and has a verdict; ``analyze`` makes them one."""
    said = submit(tmp_path / "results", "", more="--nodes=2 --array=0-1")
    assert said.count("exit code ") == 2, said
    found = verdicts(tmp_path / "results")
    assert len({one["run_id"] for one in found}) == 2
    assert sorted(one["exit_code"] for one in found) == [0, 1], said
    hosts = [{part["component"].partition("/")[0] for part in one["components"]} & {*NODES} for one in found]
    assert sorted((*hosts[0], *hosts[1])) == NODES
    judged = called(["analyze", *map(str, sorted((tmp_path / "results").glob("*/2*"))), "--json"])
    whole = json.loads(judged.stdout)
    assert (judged.returncode, whole["outcome"], whole["backend"]) == (1, "fail", "slurm"), judged.stderr
    assert {part["component"].partition("/")[0] for part in whole["components"]} & {*NODES} == {*NODES}
    assert [one["component"] for one in whole["suspects"]] == [BAD.component]
    assert "2 runs judged together" in whole["reasons"][-1]


def test_changes_are_refused(submit: Callable[..., str], tmp_path: Path) -> None:
    """Nothing that would undo them outlives the step: said with the line, before anything is done."""
    words = "--yes"
    said = submit(tmp_path / "results", words, more="--nodes=4", scenario="flap-tolerance.yaml")
    assert "exit code 2" in said
    assert "backend slurm makes no changes: Slurm ends with the step the guards that undo them" in said
    assert "flap-tolerance.yaml:" in said
    assert not (tmp_path / "results").exists()


def test_without_a_job_it_is_said(tmp_path: Path) -> None:
    """Exit 2 and what to do."""
    code = "from fabric.cli.main import run; run()"
    words = ("run", str(SCENARIOS / "self-check.yaml"), "--backend", "slurm", "--results", str(tmp_path))
    env = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    done = subprocess.run((sys.executable, "-c", code, *words), env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "backend slurm: no job to begin a step in" in done.stderr
    assert "start it with sbatch or salloc" in done.stderr
