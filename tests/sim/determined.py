"""Runs a troubled rack and prints its history: ``python tests/sim/determined.py RESULTS``."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from fabric.app.prepare import Given, prepare
from fabric.app.run import run
from fabric.model.inventory import Fault, TimedFault
from fabric.wiring import BACKENDS
from tests.places import INVENTORY

RACK = INVENTORY / "pod-64.yaml"
SCENARIO = """\
name: troubled
description: Everything at once
inventory: {inventory}
hosts: "gpu[001-006,033-034]"
phases:
  - name: inside
    probes:
      - rnic_to_rnic: {{duration: 5s}}
      - all_to_all: {{sizes: [8G], iterations: 500}}
  - name: between
    probes:
      - tor_all_reduce: {{sizes: [8G], iterations: 500}}
      - concurrent_rings: {{groups_of: 2, sizes: [8G], iterations: 500}}
"""


class Nobody:
    """Watches a run and does nothing."""

    def __getattr__(self, name):
        """Whatever it is told."""
        return lambda *told: None


def history(results: Path, *, seed: int) -> bytes:
    """The events of one run with faults, lemons and failures; the run's own name, which holds the time, is cut out."""
    results.mkdir(parents=True, exist_ok=True)
    scenario = results / "troubled.yaml"
    scenario.write_text(SCENARIO.format(inventory=RACK))
    asked = prepare(Given(scenario, faults=("gpu003/mlx5_2:slow=0.5",)))
    mock = replace(
        asked.inventory.mock,
        faults=(*asked.inventory.mock.faults, Fault("gpu002", "lemon"), Fault("su0-leaf0--spine01", "lemon")),
        timed_faults=(
            TimedFault(60.0, 30.0, Fault("gpu004/mlx5_1", "broken")),
            TimedFault(200.0, 60.0, Fault("gpu005/gpu3", "hot")),
        ),
        failures_per_host_day=300.0,
        lemon_per_hour=200.0,
    )
    asked = replace(asked, inventory=replace(asked.inventory, mock=mock))
    judged = run(asked, backend="mock", make_executor=BACKENDS["mock"], results=results, seed=seed, observer=Nobody())
    first, rest = (Path(judged.path) / "events.jsonl").read_bytes().split(b"\n", 1)
    return re.sub(rb',"crc32":\d+', b"", first.replace(judged.run_id.encode(), b"RUN")) + b"\n" + rest


if __name__ == "__main__":
    sys.stdout.buffer.write(history(Path(sys.argv[1]), seed=5))
