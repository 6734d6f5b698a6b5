"""
How well the bad part is found from pair tests, beside what others do; seeded, no hardware.

    python benchmarks/localise.py [--runs 300]

128 hosts, 8 leaves of 16, 32 uplinks, 4 spines (172 components), 1-4 faults (70 % hosts, 20 % uplinks, 5 % leaves, 5 %
spines), noise, transient dips. Noise model and decoder agree by design and paths are known: regression goals, not
promises for the field. First the speed: 128 and 501 hosts with 8 rails, all pairs, from a CSV file.
"""

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pair_fabric import GOOD_GBPS, Fabric, Found, Scene, Score, localised, rows_of, screened
from pair_peers import PEERS, SLOW_PEERS

from fabric.app.diagnose import diagnose_files
from fabric.cli.main import COLLECTED
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.model.outcome import Outcome

GOALS: dict[str, tuple[Scene, str, Callable[[Score], bool]]] = {
    "A1  10 %, CV 1 %": (
        Scene(0.10, 0.01),
        "P, R >= .99, <= 6 rounds, <= 260 tests",
        lambda s: s.precision >= 0.99 and s.recall >= 0.99 and s.rounds <= 6 * s.runs and s.tests <= 260 * s.runs,
    ),
    "A2  10 %, CV 3 %": (
        Scene(0.10, 0.03, repeats=3),
        "P, R >= .99, <= 25 slots",
        lambda s: s.precision >= 0.99 and s.recall >= 0.99 and 3 * s.rounds <= 25 * s.runs,
    ),
    "A3  3 %, CV 1 %": (
        Scene(0.03, 0.01, repeats=5),
        "P, R >= .98, <= 20 slots",
        lambda s: s.precision >= 0.98 and s.recall >= 0.98 and 5 * s.rounds <= 20 * s.runs,
    ),
    "A3' 3 %, CV 1 %, spread .5 %": (
        Scene(0.03, 0.01, repeats=5, spread=0.005),
        "P >= .95, R >= .92",
        lambda s: s.precision >= 0.95 and s.recall >= 0.92,
    ),
    "A4  clean, CV 1 %": (Scene(0.1, 0.01, bad=0), "<= 1 % of runs", lambda s: s.wrong_runs <= 0.01 * s.runs),
    "A4' clean, spread .5 %": (
        Scene(0.1, 0.01, bad=0, spread=0.005),
        "<= 1 % of runs",
        lambda s: s.wrong_runs <= 0.01 * s.runs,
    ),
}
MANY = {
    "A6  26 of 128 hosts bad": Scene(0.10, 0.01, bad=26, hosts_only=True),
    "A6' 51 of 128 hosts bad": Scene(0.10, 0.01, bad=51, hosts_only=True),
}
_MANY_GOAL = "P >= .99, R >= .95, <= 8 rounds"
_PEER_RUNS_ALL_PAIRS = 20


def score(scene: Scene, method: Callable[[Fabric], Found], runs: int, *, lenient: bool = False) -> Score:
    """A method on the same draws as every other; *lenient* as in ``Score.add``."""
    found = Score()
    for seed in range(runs):
        fabric = Fabric(scene, seed)
        found.add(fabric, method(fabric), lenient=lenient)
    return found


def line(name: str, found: Score, repeats: int, verdict: str = "") -> str:
    """One row of the table."""
    n = found.runs
    return (
        f"  {name:<30} P {found.precision:5.3f}  R {found.recall:5.3f}  {found.rounds / n:5.1f} rounds "
        f"{repeats * found.rounds / n:6.1f} slots {found.tests / n:6.0f} tests "
        f"{found.wrong_runs:>4} of {n} runs wrong  {verdict}"
    )


def say(passed: bool, goal: str) -> str:
    """The goal, and whether it was met."""
    return f"{'met' if passed else 'MISSED'} ({goal})"


def speed(hosts: int, most_s: float, most_mib: int) -> None:
    """Everybody with everybody on 8 rails: read and diagnosed; CPU seconds and peak memory of this process."""
    random = np.random.default_rng(7)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.csv"
        rows = [
            f"gpu{a:03d},gpu{b:03d},{_speed_sample(a, b, rail) * (1 + 0.01 * random.normal()):.2f},{rail}"
            for rail in range(8)
            for a, b in combinations(range(hosts), 2)
        ]
        file.write_text("\n".join(["a,b,value_gbps,rail", *rows]), encoding="ascii")
        count = len(rows)
        del rows
        gc.set_threshold(*COLLECTED)  # as the command does
        began, cpu = time.perf_counter(), time.process_time()
        found, _ = diagnose_files([file])
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    names = ", ".join(suspect.component for suspect in found.suspects)
    verdict = say(cpu <= most_s and peak <= most_mib, f"<= {most_s:g} s, <= {most_mib:g} MiB")
    print(f"  {count:,} results: {cpu:.2f} s CPU ({wall:.2f} s wall), {peak:.0f} MiB peak; named {names}  {verdict}")


def _speed_sample(a: int, b: int, rail: int) -> float:
    """One host is bad on every rail, another on one."""
    return GOOD_GBPS * (0.8 if 5 in (a, b) or (rail == 3 and 77 in (a, b)) else 1.0)


def statistics(runs: int) -> None:
    """Goals B1-B4 with fixed rounds."""
    clean = score(Scene(0.1, 0.01, bad=0, spread=0.003, hosts_only=True), screened(5), runs)
    per_run = clean.wrong / clean.runs
    print(f"  B1 clean fleet, n 5: {per_run:.3f} false positives a run  {say(per_run <= 0.05, '<= .05')}")
    for loss, cv, rounds, least in (
        (0.1, 0.01, 5, 0.99),
        (0.1, 0.03, 5, 0.99),
        (0.03, 0.01, 5, 0.95),
    ):
        found = score(Scene(loss, cv, hosts_only=True), screened(rounds), runs)
        verdict = say(found.recall >= least, f"R >= {least:g}")
        print(f"  B2 -{loss:.0%}, CV {cv:.0%}, n {rounds}: P {found.precision:.3f} R {found.recall:.3f}  {verdict}")
    sequential = Scene(0.03, 0.02, repeats=2, hosts_only=True)
    found = score(sequential, localised, runs)
    n = 2 * 2 * found.tests / found.runs / 128
    verdict = say(found.recall >= 0.95 and n <= 7, "R >= .95, mean n <= 7")
    print(f"  B2 -3%, CV 2%, by rounds: P {found.precision:.3f} R {found.recall:.3f}, mean n {n:.1f}  {verdict}")
    slow = [Fabric(Scene(0.0, 0.01, bad=0), seed) for seed in range(runs)]
    failed = sum(diagnose(rows_of(fabric, 5), limit_gbps=1.1 * GOOD_GBPS).outcome is Outcome.FAIL for fabric in slow)
    print(f"  B3 all uniformly 9 % under the limit: {failed} of {runs} FAIL  {say(failed == runs, 'all')}")
    noisy = [Fabric(Scene(0.0, 0.08, bad=0), seed) for seed in range(runs)]
    passed = sum(diagnose(rows_of(fabric, 3)).outcome in (Outcome.PASS, Outcome.MARGINAL) for fabric in noisy)
    print(f"  B4 CV 8 %, n 3: {passed} of {runs} PASS  {say(passed == 0, 'none')}")


def main() -> None:
    """Print every table."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=300)
    runs = options.parse_args().runs
    print("speed")
    speed(128, 1.2, 100)
    speed(501, 6.0, 700)
    print(f"localisation, {runs} runs a row")
    for name, (scene, goal, met) in GOALS.items():
        found = score(scene, localised, runs)
        print(line(name, found, scene.repeats, say(met(found), goal)))
    for name, scene in MANY.items():
        found = score(scene, localised, max(runs // 5, 5))
        passed = found.precision >= 0.99 and found.recall >= 0.95 and found.rounds <= 8 * found.runs
        print(line(name, found, 1, say(passed, _MANY_GOAL)))
    for title in ("A1  10 %, CV 1 %", "A2  10 %, CV 3 %", "A3  3 %, CV 1 %"):
        print(f"others, {title} (a host named under a bad leaf is not counted against them)")
        scene = GOALS[title][0]
        for name, peer in PEERS.items():
            every = name in SLOW_PEERS
            given = replace(scene, repeats=1) if every else scene
            count = min(runs, _PEER_RUNS_ALL_PAIRS) if every else runs
            found = score(given, peer, count, lenient=True)
            print(line(name, found, given.repeats))
    print("statistics")
    statistics(max(runs // 3, 10))


if __name__ == "__main__":
    main()
