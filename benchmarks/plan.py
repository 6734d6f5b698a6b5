"""
How planning grows with the fleet: 12 rounds with eight pair tests each, beside the collectives of a burn-in.

    python benchmarks/plan.py [HOSTS ...]        default: 8 128 512 2048

Prints the CPU seconds of ``fabric plan`` from start to end and its peak memory, and how the CPU seconds grow (exponent
1 = in proportion). The children are measured with wait4, one by one.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from self_check import inventory

ROUNDS = 12
SCENARIO = """\
name: many-pairs
inventory: {inventory}
hosts: all
phases:
  - name: soak
    for: {lasts_s}s
    probes:
      - all_to_all: {{sizes: [16G], halves: false, iterations: 4000}}
      - tor_all_reduce: {{sizes: [16G], iterations: 3600}}
      - pairwise: {{rounds: 8, duration: 10s}}
"""


def scenario(hosts: int, lasts_s: int, folder: Path) -> Path:
    """A soak of so many seconds."""
    path = folder / f"many-pairs-{hosts}.yaml"
    path.write_text(SCENARIO.format(inventory=inventory(hosts, folder), lasts_s=lasts_s))
    return path


def planned(path: Path, folder: Path) -> tuple[dict[str, Any], float, float]:
    """What ``fabric plan`` prints, its CPU seconds, and its peak memory in MiB."""
    argv = [sys.executable, "-c", "from fabric.cli.main import run; run()", "plan", str(path), "--json"]
    with (folder / "plan.json").open("wb") as out:
        child = subprocess.Popen(argv, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"fabric plan {path}: exit {child.returncode}")
    document = json.loads((folder / "plan.json").read_text())
    return document, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    sizes = [int(word) for word in sys.argv[1:]] or [8, 128, 512, 2048]
    taken_s = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("".join(f"{title:>12}" for title in ("hosts", "phases", "probes", "CPU s", "RSS MiB")))
        for hosts in sizes:
            once, _, _ = planned(scenario(hosts, 1, folder), folder)
            lasts_s = int((ROUNDS + 0.5) * once["duration_s"])
            document, cpu_s, rss_mib = planned(scenario(hosts, lasts_s, folder), folder)
            taken_s.append(cpu_s)
            phases = len(document["phases"])
            print(f"{hosts:>12}{phases:>12}{document['probes']:>12}{cpu_s:>12.2f}{rss_mib:>12.0f}", flush=True)
    if len(sizes) > 1:
        power = math.log(taken_s[-1] / taken_s[0]) / math.log(sizes[-1] / sizes[0])
        print(f"growth of CPU s with hosts: exponent {power:.2f}")


if __name__ == "__main__":
    main()
