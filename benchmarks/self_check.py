"""
How the self-check grows with the fleet, on the mock: plan to verdict, in one process.

    python benchmarks/self_check.py [HOSTS ...]        default: 32 128 512 2048

Prints wall and CPU seconds, peak memory, hosts per second, the size of the run directory, the expected time on
hardware, and how each grows (exponent 1 = in proportion). The children are measured with wait4, one by one.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "inventory" / "hall-2048.yaml"
SCENARIO = ROOT / "scenarios" / "self-check.yaml"


@dataclass(frozen=True)
class Row:
    """One run."""

    hosts: int
    probes: int
    wall_s: float
    cpu_s: float
    rss_mib: float
    disk_mib: float
    hardware_s: float
    bound_ratio: float
    outcome: str


def inventory(hosts: int, folder: Path) -> Path:
    """The 2,048-host hall, cut to *hosts* or with as many more units; baselines beside it."""
    digits, units = max(4, len(str(hosts))), max(64, -(-hosts // 32))
    text = TEMPLATE.read_text().replace("gpu[0001-2048]", f"gpu[{1:0{digits}d}-{hosts:0{digits}d}]")
    if units > 64:
        text = text.replace("{unit:02}", "{unit:03}").replace("su[00-63]", f"su[000-{units - 1:03d}]")
    shutil.copytree(TEMPLATE.parent / "baselines", folder / "baselines", dirs_exist_ok=True)
    path = folder / f"hall-{hosts}.yaml"
    path.write_text(text)
    return path


def measure(hosts: int, folder: Path) -> Row:
    """Plan and run once in a child process."""
    own = inventory(hosts, folder)
    fabric = [sys.executable, "-c", "from fabric.cli.main import run; run()"]
    plan = json.loads(
        subprocess.run(
            [*fabric, "plan", str(SCENARIO), "--inventory", str(own), "--json"], check=True, capture_output=True
        ).stdout
    )
    results = folder / f"results-{hosts}"
    argv = [*fabric, "run", str(SCENARIO), "--inventory", str(own), "--backend", "mock"]
    started_s = time.perf_counter()
    with (folder / "verdict.json").open("wb") as out:
        child = subprocess.Popen([*argv, "--results", str(results), "--json"], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)  # nobody else waits for it
    wall_s = time.perf_counter() - started_s
    verdict = json.loads((folder / "verdict.json").read_text())
    disk = sum(entry.stat().st_blocks * 512 for entry in results.rglob("*") if entry.is_file())
    shutil.rmtree(results)
    return Row(
        hosts=hosts,
        probes=verdict["probes"],
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        rss_mib=usage.ru_maxrss / 1024,
        disk_mib=disk / 2**20,
        hardware_s=plan["duration_s"],
        bound_ratio=plan["duration_s"] / plan["lower_bound_s"],
        outcome=verdict["outcome"],
    )


def exponent(rows: list[Row], field: str) -> float:
    """Slope of log(field) over log(hosts) between the smallest and the largest run."""
    first, last = rows[0], rows[-1]
    return math.log(getattr(last, field) / getattr(first, field)) / math.log(last.hosts / first.hosts)


def main() -> None:
    """Print the table."""
    sizes = [int(word) for word in sys.argv[1:]] or [32, 128, 512, 2048]
    rows: list[Row] = []
    header = (
        "hosts",
        "probes",
        "wall s",
        "CPU s",
        "RSS MiB",
        "disk MiB",
        "hosts/s",
        "hardware s",
        "x bound",
        "outcome",
    )
    print("".join(f"{name:>12}" for name in header))
    with tempfile.TemporaryDirectory() as folder:
        for hosts in sizes:
            row = measure(hosts, Path(folder))
            rows.append(row)
            print(
                f"{row.hosts:>12}{row.probes:>12}{row.wall_s:>12.2f}{row.cpu_s:>12.2f}{row.rss_mib:>12.0f}"
                f"{row.disk_mib:>12.0f}{row.hosts / row.wall_s:>12.1f}{row.hardware_s:>12.0f}{row.bound_ratio:>12.3f}"
                f"{row.outcome:>12}",
                flush=True,
            )
    if len(rows) > 1:
        for field in ("wall_s", "cpu_s", "rss_mib", "disk_mib"):
            print(f"growth of {field} with hosts: exponent {exponent(rows, field):.2f}")


if __name__ == "__main__":
    main()
