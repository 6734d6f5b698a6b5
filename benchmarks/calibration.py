"""
Is a suspect that is printed with 90 % right nine times of ten?

    python benchmarks/calibration.py [FILE.csv ...] [--seeds 101:104] [--parts 25] [--draw curve.svg]

Counted are all suspects that FAIL: on results of two real clusters with one to three bad hosts planted in them, and on
parts of the same results as they are (`benchmarks/real_pairs.py`), and those of FILEs, which `benchmarks/shapes.py
--save` writes. A suspect is right when it itself is bad: its rivals have shares of their own. The table has what was
printed on average, how many were right with the 95 % interval of that (Wilson), and the Brier score: the mean square
of confidence minus truth, and that of one number for all. Goal: 99 % of what is printed with 0.99 is right.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
from real_pairs import SETS, cases, judged, parts, read

from fabric.model.outcome import Outcome

Printed = Sequence[tuple[float, bool]]
"""The confidence of each suspect that FAILs, and whether it is bad."""

EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.985, 1.0)
"""What is printed as 99 % is in the last class."""


def on_real_pairs(seeds: range, count: int) -> Iterator[tuple[float, bool]]:
    """Suspects of pairs in which hosts are bad, and of pairs as they are, in which nobody is known to be."""
    sets = {path.stem: read(path) for path in sorted(SETS.glob("*.csv"))}
    for seed in seeds:
        random = np.random.default_rng(seed)
        given = [(set[str](), some) for _, some in parts(sets, random, count)]
        given += [(who, some) for who, _, some in cases(sets, random, max(count // 12, 1))]
        for who, some in given:
            for suspect in judged(some).suspects:
                if suspect.outcome is Outcome.FAIL:
                    yield suspect.confidence, suspect.component in who


def read_printed(path: Path) -> Iterator[tuple[float, bool]]:
    """What ``shapes.py --save`` wrote."""
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield float(row["confidence"]), row["bad"] == "True"


def wilson(right: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    share, spread = right / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / count + spread / (4 * count))
    return middle - half, middle + half


def classes(printed: Printed) -> Iterator[tuple[str, int, float, float, tuple[float, float]]]:
    """By class of confidence that occurs: its bounds, how many, mean confidence, share that is right, its interval."""
    for low, high in pairwise(EDGES):
        here = [one for one in printed if low <= one[0] < high or (high == 1.0 and one[0] == 1.0)]
        if here:
            right = sum(bad for _, bad in here)
            mean = sum(sure for sure, _ in here) / len(here)
            yield f"{low:.3g}-{high:.3g}", len(here), mean, right / len(here), wilson(right, len(here))


def brier(printed: Printed) -> tuple[float, float]:
    """The Brier score (1950), and that of saying the share that is right of all of them."""
    sure, bad = np.array([one for one, _ in printed]), np.array([bad for _, bad in printed], dtype=float)
    return float(np.mean((sure - bad) ** 2)), float(bad.mean() * (1 - bad.mean()))


def lines(name: str, printed: Printed) -> Iterator[str]:
    """The table of one source."""
    yield f"{name}: {len(printed)} suspects that FAIL"
    if not printed:
        return
    yield f"  {'printed':<11}{'n':>6}{'mean':>8}{'right':>8}   95 % interval"
    for bounds, count, mean, share, (low, high) in classes(printed):
        said = "" if low <= mean <= high else "  too sure" if mean > high else "  too modest"
        yield f"  {bounds:<11}{count:>6}{mean:>8.1%}{share:>8.1%}   {low:.1%} to {high:.1%}{said}"
    score, plain = brier(printed)
    yield f"  Brier score {score:.4f} (one number for all: {plain:.4f})"


def draw(path: Path, found: dict[str, Printed]) -> None:
    """The reliability curves, beside the diagonal that they should follow; .svg or .png."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, printed in found.items():
        rows = list(classes(printed))
        means, shares = [row[2] for row in rows], [row[3] for row in rows]
        below = [max(0.0, share - row[4][0]) for share, row in zip(shares, rows, strict=True)]
        above = [max(0.0, row[4][1] - share) for share, row in zip(shares, rows, strict=True)]
        axes.errorbar(means, shares, yerr=[below, above], marker="o", markersize=4, capsize=2, label=name)
    axes.set(xlabel="printed confidence", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    """Print a table for each source and for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seeds", default="101:104", help="FIRST:LAST, the last one left out")
    parser.add_argument("--parts", type=int, default=25, help="healthy parts of each set and seed")
    parser.add_argument("--draw", type=Path, help="an .svg or .png of the curves")
    asked = parser.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    found: dict[str, Printed] = {"real pairs": list(on_real_pairs(range(first, last), asked.parts))}
    found |= {path.stem: list(read_printed(path)) for path in asked.files}
    if asked.files:
        found["all"] = [one for printed in found.values() for one in printed]
    for name, printed in found.items():
        print("\n".join(lines(name, printed)))
    if asked.draw:
        draw(asked.draw, {name: printed for name, printed in found.items() if printed})


if __name__ == "__main__":
    main()
