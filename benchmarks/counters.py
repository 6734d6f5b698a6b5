"""
What the bit errors of ports are worth: simulated ports, judged by the product and by NVIDIA's windows read literally.

    python benchmarks/counters.py [SEED]

Ports of 400 Gb/s with 0 to 10 times the symbol errors that are allowed (BER 1e-15), in 125 minutes and in 48 hours, and
some that are clean but for one minute; then whole runs in which every port has exactly what is allowed. The windows are
those of the README of the UFM plugin for packet drop rates, each begun at every error: 1e-14 over 12 minutes (2.88
errors) and 1e-15 over 125 minutes (3.0). Some seconds.
"""

import sys
from collections import Counter
from functools import cache

import numpy as np

from fabric.judge.ports.health import BER, judge_ber
from fabric.model.outcome import Outcome

GBPS = 400.0
RUN_PORTS = 64
PORTS = 4000
"""So many of each kind are simulated."""

TIMES_S = {"125 min": 7500.0, "48 h": 48 * 3600.0}
WINDOWS_S = {720.0: 1e-14, 7500.0: 1e-15}
OUTCOMES = (Outcome.FAIL, Outcome.PASS, Outcome.INCONCLUSIVE)

Times = np.ndarray[tuple[int], np.dtype[np.float64]]
"""When the errors of a port were counted, in order, seconds."""


def main(seed: int) -> None:
    """Both tables."""
    draws = np.random.default_rng(seed)
    print(f"{PORTS} ports a row, seed {seed}")
    print(f"{'':30}{'all of the time':>30}{'NVIDIA windows':>30}")
    print(f"{'':30}" + 2 * "".join(f"{outcome.name[:6]:>10}" for outcome in OUTCOMES))
    for name, of_time_s in TIMES_S.items():
        for times in (0.0, 0.5, 1.0, 2.0, 10.0):
            rate = times * allowed(of_time_s)
            ports = [np.sort(draws.uniform(0.0, of_time_s, number)) for number in draws.poisson(rate, PORTS)]
            row(f"{name}, {times:g} x what is allowed", ports, of_time_s)
    for number in (4, 40, 400):
        starts = draws.uniform(0.0, TIMES_S["48 h"] - 60.0, PORTS // 10)
        ports = [start + np.sort(draws.uniform(0.0, 60.0, number)) for start in starts]
        row(f"48 h, {number} in one minute", ports, TIMES_S["48 h"])
    print("\nevery port at exactly what is allowed: runs in which some port FAILs (at most 1 % is promised)")
    for name, of_time_s in TIMES_S.items():
        for number, runs in ((64, 4000), (16_384, 400)):
            most = draws.poisson(allowed(of_time_s), (runs, number)).max(axis=1)
            failed = sum(by_count(int(count), of_time_s, number) is Outcome.FAIL for count in most)
            print(f"{name}, {number:>6} ports: {failed / runs:6.2%} of {runs} runs")


def allowed(of_time_s: float) -> float:
    """How many errors the ratio that is allowed makes."""
    return BER * GBPS * 1e9 * of_time_s


@cache
def by_count(count: int, of_time_s: float, ports: int) -> Outcome:
    """What the product says."""
    return judge_ber(count, of_time_s, GBPS, ports=ports).outcome


def by_windows(times_s: Times, of_time_s: float) -> Outcome:
    """More errors than allowed in any window are a FAIL; else a time as long as the longest is a PASS."""
    for window_s, ber in WINDOWS_S.items():
        beyond = int(ber * GBPS * 1e9 * window_s + 1e-9)  # one more than allowed, counted from 0
        if np.any(times_s[beyond:] - times_s[: max(0, len(times_s) - beyond)] <= window_s):
            return Outcome.FAIL
    return Outcome.PASS if of_time_s >= max(WINDOWS_S) else Outcome.INCONCLUSIVE


def row(name: str, ports: list[Times], of_time_s: float) -> None:
    """The share of each outcome, by both rules."""
    both = (
        Counter(by_count(len(times_s), of_time_s, RUN_PORTS) for times_s in ports),
        Counter(by_windows(times_s, of_time_s) for times_s in ports),
    )
    print(f"{name:30}" + "".join(f"{found[outcome] / len(ports):>10.1%}" for found in both for outcome in OUTCOMES))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 101)
