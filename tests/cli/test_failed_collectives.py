"""What real NCCL said when a rail died, through the whole product: the commands that it sends get it told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import called
from tests.places import CAPTURES, INVENTORY

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


@pytest.mark.parametrize("log", LOGS)
def test_a_dead_rail_is_the_fabrics_failure(tmp_path: Path, log: str) -> None:
    """NCCL's own warning names it, and is printed because the product asks for it."""
    code, verdict = ran(tmp_path, CAPTURES / "nccl-tests" / log)
    assert (code, verdict["outcome"]) == (1, "fail")


def test_without_a_warning_nobody_is_blamed(tmp_path: Path) -> None:
    """The same words are said of a peer whose process ended: a site that asks for no warnings gets an error."""
    code, verdict = ran(tmp_path, CAPTURES / "nccl-tests" / LOGS[0], env="env: {NCCL_DEBUG: VERSION}")
    assert (code, verdict["outcome"]) == (3, "error")
