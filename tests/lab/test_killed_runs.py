"""A run over real SSH is killed (SIGKILL) at random instants and goes on: nothing acknowledged is lost or repeated."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.killed_runs import killed_and_resumed, spawned, whole_run
from benchmarks.lab.lab import SLOWER
from benchmarks.lab.namespaces import inside
from benchmarks.lab.rack import Rack
from fabric.model.inventory import Fault

pytestmark = pytest.mark.lab

KILLS = 3

SCENARIO = """\
name: killed
inventory: {inventory}
hosts: all
phases:
  - name: intra-host
    probes: [{{loopback: {{size: 8M, duration: 5s}}}}, {{rnic_to_rnic: {{size: 64K, duration: 5s}}}}]
  - name: tor
    needs: [intra-host]
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 4}}}}]
judge: {{marginal: 0.005}}
"""


@pytest.mark.timeout(300 * SLOWER)
def test_killed_over_ssh_nothing_acknowledged_is_lost_or_repeated(rack: Callable[..., Rack]) -> None:
    """Every probe is a real process behind a real sshd; the rack has a bad part, so that the verdict says something."""
    made = rack(hosts=4, parts=2, faults=(Fault("gpu002/mlx5_1->numa1-gpus", "slow", 0.4),), speed=100.0)
    (made.folder / "killed.yaml").write_text(SCENARIO.format(inventory=made.inventory_file))

    def main(words: Sequence[str], output: Path) -> int:
        with inside(made.lab.namespaces.orchestrator):
            return spawned(words, output)

    as_whole, took_s = whole_run(main, made.folder)
    assert as_whole.outcome == "fail"
    chance = random.Random()
    half_done = kept = 0
    for number in range(KILLS):
        after_s = chance.uniform(number, number + 1) / KILLS * took_s
        found = killed_and_resumed(main, made.folder, number, after_s=(after_s,), as_whole=as_whole)
        assert not found.wrong, (after_s, took_s, found)
        half_done, kept = half_done + found.half_done, kept + found.kept
    assert kept > 0
    assert half_done > 0
