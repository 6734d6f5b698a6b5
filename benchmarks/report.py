"""
How long reports take, how large the page is, and how both grow: ``python benchmarks/report.py [HOSTS...]``.

Runs the self-check on the simulated hall for each number of hosts (8, 128, 512 when none is given), then makes each
report from the judged run. With ``--paint`` also the time from opening the file to the first picture, by Chromium.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fabric import app
from fabric.report import derived
from fabric.report.progress import ConsoleProgress
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ("gpu0003/mlx5_3:slow=0.6", "gpu0005:hanging")
PAINT = ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1600")


def main() -> None:
    """One line for each number of hosts and report."""
    words = sys.argv[1:]
    sizes = [int(word) for word in words if word.isdigit()] or [8, 128, 512]
    gc.set_threshold(500_000, 50, 1000)
    head = f"{'hosts':>6} {'probes':>8} {'read back s':>12} {'report':>14} {'s':>7} {'CPU s':>7}"
    print(f"{head} {'KiB':>8} {'bytes/probe':>12}")
    for hosts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure(hosts, Path(folder), paint="--paint" in words)


def measure(hosts: int, results: Path, *, paint: bool) -> None:
    """Run, read back, make every report."""
    path = run(hosts, results)
    start = time.perf_counter()
    shown = app.reopened(path)
    back_s = time.perf_counter() - start
    for name, make in derived.MAKERS.items():
        start, cpu = time.perf_counter(), time.process_time()
        text = make(shown)
        took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        size = len(text.encode())
        probes = len(shown.rows)
        said = f"{hosts:>6} {probes:>8} {back_s:>12.2f} {name:>14} {took_s:>7.2f} {cpu_s:>7.2f}"
        print(f"{said} {size >> 10:>8} {size / probes:>12.1f}")
        derived.write_text(path / name, text)
    if paint:
        drawn_s = painted(path / "report.html", results)
        print(f"{hosts:>6} {'':>8} {'':>12} {'drawn':>14} {drawn_s:>7.2f}  (Chromium's own start included)")


def run(hosts: int, results: Path) -> Path:
    """The self-check of the first hosts of the hall, without reports."""
    asked = app.prepare(
        ROOT / "scenarios" / "self-check.yaml",
        inventory_path=ROOT / "inventory" / "hall-2048.yaml",
        hosts=f"gpu[0001-{hosts:04}]" if hosts > 1 else "gpu0001",
        faults=FAULTS if hosts > 5 else (),
    )
    judged = app.run(
        asked,
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=results,
        seed=1,
        observer=ConsoleProgress(quiet=True),
        reports=False,
    )
    return Path(judged.path)


def painted(page: Path, folder: Path) -> float:
    """Seconds from starting Chromium until it has drawn the page."""
    start = time.perf_counter()
    words = ["chromium", *PAINT, f"--user-data-dir={folder}/profile", f"--screenshot={folder}/page.png", page.as_uri()]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
