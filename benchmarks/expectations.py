"""
Is the 95 % interval of ``expect:`` right in 95 of 100 runs, also where rounds differ from each other?

    python benchmarks/expectations.py [--runs 300] [--seed 101]

Every run is drawn: each side has a true level for each of its members, and what is measured of it is that level, times
how this round differs for the whole side, times how it differs for this member, times the noise of one sample (0.5 %).
How much rounds differ is the column. A cell says in how many runs the truth was in the interval, and half the width of
the interval in the middle of them. The truth is the ratio that was put in; of p5 and slowest/median that of these
members' own levels; of cv that of the kind that the members were drawn from. ``-``: no interval was given
(INCONCLUSIVE), so nothing wrong is said.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from math import exp
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from fabric.judge.changes.ratio import judge_ratio
from fabric.judge.normal.keys import Sample, SampleKey
from fabric.model.scenario import ExpectedRatio, Phase, PhaseRef
from fabric.model.verdict import ExpectationVerdict
from fabric.probes.concurrent_rings import ConcurrentRingsSpec

SPREADS = (0.0, 0.005, 0.01, 0.02)
NOISE = 0.005
MEMBERS = 32  # as Meta measured them
OF, OVER = PhaseRef("of"), PhaseRef("over")
Levels = Sequence[float]
Judged = Iterator[tuple[ExpectationVerdict, float]]


def measured(
    draw: random.Random, sides: dict[str, Levels], *, rounds: int, repeats: int, spread: float
) -> tuple[list[Phase], list[Sample]]:
    """The phases of one run and what was measured in them; *sides* has the true levels by name of the phase."""
    phases, samples = [], []
    for label, levels in sides.items():
        for number in range(1, rounds + 1):
            phases.append(Phase(f"{label}.r{number}", (ConcurrentRingsSpec(),), label=label, round=number))
            whole = draw.gauss(0.0, spread)
            for member, level in enumerate(levels):
                key = SampleKey("concurrent_rings", "rings", (f"gpu{member:03d}",), "", 8 << 30)
                own = draw.gauss(0.0, spread) if len(levels) > 1 else 0.0
                samples += [
                    Sample(key, phases[-1].name, again, level * exp(whole + own + draw.gauss(0.0, NOISE)), None)
                    for again in range(1, repeats + 1)
                ]
    return phases, samples


def ratios(draw: random.Random, runs: int, *, rounds: int, spread: float, repeats: int) -> Judged:
    """One measurement a side; the ratio is 0.6."""
    expected = ExpectedRatio(OF, OVER, at_least=0.5)
    for _ in range(runs):
        sides = {"of": [60.0], "over": [100.0]}
        phases, samples = measured(draw, sides, rounds=rounds, repeats=repeats, spread=spread)
        yield judge_ratio(expected, phases, samples, []), 0.6


def alike(draw: random.Random, count: int) -> Levels:
    """Rings that have the network to themselves: 1 % apart."""
    return [100.0 * exp(draw.gauss(0.0, 0.01)) for _ in range(count)]


def collided(draw: random.Random, count: int) -> Levels:
    """Rings on static routes: of some two or three share a link."""
    return [100.0 / draw.choice((1, 1, 1, 2, 2, 3)) * exp(draw.gauss(0.0, 0.01)) for _ in range(count)]


def cv(levels: Levels) -> float:
    """Sigma / mean."""
    return stdev(levels) / fmean(levels)


def p5(levels: Levels) -> float:
    """The 5th percentile."""
    return float(np.quantile(levels, 0.05))


def slowest(levels: Levels) -> float:
    """The slowest over the middle."""
    return min(levels) / median(levels)


STATISTICS: dict[str, Callable[[Levels], float]] = {"cv": cv, "p5": p5, "slowest/median": slowest}
KINDS: tuple[Callable[[random.Random, int], Levels], ...] = (alike, collided)
CV_OF_KIND = {kind: cv(kind(random.Random(0), 200_000)) for kind in KINDS}


def statistics(
    draw: random.Random, runs: int, name: str, kinds: Sequence[Any], *, rounds: int, spread: float, repeats: int
) -> Judged:
    """A statistic of the first kind of members, or over that of the second where there is one."""
    more: dict[str, Any] = {"statistic": name}
    expected = ExpectedRatio(OF, OVER if len(kinds) > 1 else None, at_most=1.0, **more)  # type: ignore[arg-type]
    for _ in range(runs):
        sides = {label: kind(draw, MEMBERS) for label, kind in zip(("of", "over"), kinds, strict=False)}
        phases, samples = measured(draw, sides, rounds=rounds, repeats=repeats, spread=spread)
        of = [CV_OF_KIND[kind] for kind in kinds] if name == "cv" else [STATISTICS[name](one) for one in sides.values()]
        yield judge_ratio(expected, phases, samples, []), of[0] / (of[1] if len(of) > 1 else 1.0)


def cell(judged: Judged) -> str:
    """``95.0% ±  1.2%``."""
    right, widths = [], []
    for found, truth in judged:
        if found.low is not None and found.high is not None:
            right.append(found.low <= truth <= found.high)
            widths.append((found.high - found.low) / 2 / truth)
    return f"{fmean(right):6.1%} ±{median(widths):6.1%}" if right else "-"


def table(title: str, rows: Sequence[tuple[int, int]], judged: Callable[..., Judged]) -> None:
    """One row a number of rounds and repetitions, one column a spread between rounds."""
    print(f"\n{title}\n{'rounds x samples':>16}" + "".join(f"{spread:>16.1%}" for spread in SPREADS))
    for rounds, repeats in rows:
        cells = (cell(judged(rounds=rounds, repeats=repeats, spread=spread)) for spread in SPREADS)
        print(f"{f'{rounds} x {repeats}':>16}" + "".join(f"{one:>16}" for one in cells), flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=101)
    asked = parser.parse_args()
    draw, began_s = random.Random(asked.seed), time.process_time()
    table(
        "ratio of two phases",
        [(1, 2), (1, 5), (1, 10), (2, 1), (2, 5), (2, 10), (3, 1), (3, 5), (5, 5), (10, 2)],
        lambda **how: ratios(draw, asked.runs * 2, **how),
    )
    if "statistic" not in {field.name for field in fields(ExpectedRatio)}:
        print("\ncv, p5, slowest/median: cannot be asked for")
        return
    for name in STATISTICS:
        for kinds in ([alike], [collided], [alike, collided]):
            table(
                f"{name} of {MEMBERS} rings, {' over '.join(kind.__name__ for kind in kinds)}",
                [(1, 5), (3, 3), (10, 2)],
                lambda name=name, kinds=kinds, **how: statistics(draw, asked.runs // 4, name, kinds, **how),
            )
    print(f"\n{time.process_time() - began_s:.0f} CPU s")


if __name__ == "__main__":
    main()
