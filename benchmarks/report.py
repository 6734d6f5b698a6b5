"""
How long reports take, how large the page is, and how both grow: ``python benchmarks/report.py [HOSTS...]``.

Runs the self-check on the simulated hall for each number of hosts (8, 128, 512 when none is given), then makes each
report from the judged run, then ``fabric report RUN --html`` as a whole, in a process of its own. Every line ends with
how its time grew against the number of hosts before.

With ``--paint`` also when the page showed its first words, by the browser's own first-contentful-paint, counted from
the beginning of the navigation: nothing is subtracted but the start of the browser, which comes before.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fabric.app import analyze
from fabric.app.analyze import reopened
from fabric.app.prepare import Given, prepare
from fabric.app.run import run as run_asked
from fabric.report.progress import ConsoleProgress
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ("gpu0003/mlx5_3:slow=0.6", "gpu0005:hanging")
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')"
READY = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def main() -> None:
    """One line for each number of hosts and report."""
    words = sys.argv[1:]
    sizes = [int(word) for word in words if word.isdigit()] or [8, 128, 512]
    gc.set_threshold(500_000, 50, 1000)
    print(
        f"{'hosts':>6} {'probes':>8} {'what':>20} {'s':>7} {'CPU s':>7} {'KiB':>8} {'bytes/probe':>12} {'growth':>12}"
    )
    before: dict[str, Line] = {}
    for hosts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for line in measured(hosts, Path(folder), paint="--paint" in words):
                print(said(line, before.get(line.what)), flush=True)
                before[line.what] = line


@dataclass(frozen=True, slots=True)
class Line:
    """What something took, and how large it is; None: no such number."""

    hosts: int
    probes: int
    what: str
    took_s: float
    cpu_s: float | None = None
    size: int | None = None


def said(line: Line, before: Line | None) -> str:
    """One line of the table; growth is that of the time over that of the hosts."""
    cpu = "" if line.cpu_s is None else f"{line.cpu_s:.2f}"
    size = "" if line.size is None else f"{line.size >> 10}"
    each = "" if line.size is None else f"{line.size / line.probes:.1f}"
    grew = ""
    if before is not None and before.took_s > 0:
        grew = f"{line.took_s / before.took_s:.1f} of {line.hosts / before.hosts:.0f}"
    said = f"{line.hosts:>6} {line.probes:>8} {line.what:>20} {line.took_s:>7.2f} {cpu:>7}"
    return f"{said} {size:>8} {each:>12} {grew:>12}"


def measured(hosts: int, results: Path, *, paint: bool) -> Iterator[Line]:
    """Run, read back, make every report; then all of it as a person asks for it."""
    path = run(hosts, results)
    start, cpu = time.perf_counter(), time.process_time()
    shown = reopened(path)
    probes = len(shown.rows)
    yield Line(hosts, probes, "read and judge", time.perf_counter() - start, time.process_time() - cpu)
    for name, make in analyze.report_makers().items():
        start, cpu = time.perf_counter(), time.process_time()
        text = make(shown)
        took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        yield Line(hosts, probes, name, took_s, cpu_s, len(text.encode()))
        (path / name).write_text(text, "utf-8")
    del shown
    yield Line(hosts, probes, "--html", *asked_for(path))
    if paint:
        first_s, whole_s = painted(path / "report.html", results)
        yield Line(hosts, probes, "first paint", first_s)
        yield Line(hosts, probes, "page complete", whole_s)


def asked_for(path: Path) -> tuple[float, float]:
    """Seconds, and seconds of CPU, of ``fabric report RUN --html``."""
    start, cpu = time.perf_counter(), os.times()
    words = [sys.executable, "-c", "from fabric.cli.main import main; main()", "report", str(path), "--html"]
    subprocess.run(words, check=True, capture_output=True, timeout=300, cwd=ROOT)
    now = os.times()
    spent_s = now.children_user - cpu.children_user + now.children_system - cpu.children_system
    return time.perf_counter() - start, spent_s


def run(hosts: int, results: Path) -> Path:
    """The self-check of the first hosts of the hall, without reports."""
    asked = prepare(
        Given(
            ROOT / "scenarios" / "self-check.yaml",
            inventory=ROOT / "inventory" / "hall-2048.yaml",
            hosts=f"gpu[0001-{hosts:04}]" if hosts > 1 else "gpu0001",
            faults=FAULTS if hosts > 5 else (),
        )
    )
    found = run_asked(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, 1),
        results=results,
        seed=1,
        observer=ConsoleProgress(quiet=True),
        reports=False,
    )
    return Path(found.judged.path)


def painted(page: Path, folder: Path) -> tuple[float, float]:
    """Seconds from the navigation until the first words are drawn, and until the page's script has run."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.chromium import Chromium

    browser = Chromium(folder / "profile")
    try:
        browser.open(page.as_uri())
        browser.until(f"{FIRST_PAINT}.length > 0")
        return browser.value(f"{FIRST_PAINT}[0].startTime") / 1000, browser.value(READY) / 1000
    finally:
        browser.close()


if __name__ == "__main__":
    main()
