"""
Is a suspect that is printed with 90 % right nine times of ten?

    python benchmarks/calibration.py [FILE.csv ...] [--seeds 101:104] [--parts 25] [--wrong 0.9] [--draw curve.svg]

Counted is every suspect, also of those that are not blamed: on results of two real clusters with one to three bad hosts
planted in them, and on parts of the same results as they are (`benchmarks/real_pairs.py`); and those of FILEs, which
`shapes.py --save` and `rack_shapes.py --save` write. A suspect is right when it itself is bad: its rivals have shares
of their own. *offered*: what is bad is it, a rival, a part or the whole of it. The table has what was printed on
average, how many were right with the 95 % interval of that (Wilson), and the Brier score: the mean square of confidence
minus truth, and that of one number for all. ``--wrong`` lists those that were so sure and wrong. Goal: 99 % of what
FAILs with 0.99 is right.
"""

import argparse
import sys
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pandas as pd

from benchmarks.real_pairs import SETS, cases, judged, parts, read

EDGES = (0.0, 0.3, 0.5, 0.7, 0.9, 0.985, 1.0)
"""What is printed as 99 % is in the last class."""


def on_real_pairs(seeds: range, count: int) -> Iterator[dict[str, object]]:
    """Suspects of pairs in which hosts are bad, and of pairs as they are, in which nobody is known to be."""
    sets = {path.stem: read(path) for path in sorted(SETS.glob("*.csv"))}
    for seed in seeds:
        random = np.random.default_rng(seed)
        given = [(set[str](), some) for _, some in parts(sets, random, count)]
        given += [(who, some) for who, _, some in cases(sets, random, max(count // 12, 1))]
        for who, some in given:
            for one in judged(some).suspects:
                bad, offered = (
                    one.component in who,
                    not who.isdisjoint((one.component, *one.ambiguous_with, *one.hosts)),
                )
                said = {"component": one.component, "outcome": one.outcome.value, "confidence": one.confidence}
                yield {"of": "real pairs", "seed": seed, "planted": " ".join(sorted(who)), **said} | {
                    "bad": bad,
                    "offered": offered,
                }


def wilson(right: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    share, spread = right / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / count + spread / (4 * count))
    return middle - half, middle + half


def classes(printed: pd.DataFrame) -> pd.DataFrame:
    """A row for each class of confidence that occurs: *n*, the *mean* confidence, and the shares *right*, *offered*."""
    edges = pd.IntervalIndex.from_breaks(EDGES, closed="left")
    of = pd.cut(printed.confidence.clip(upper=1 - 1e-9), edges)
    asked = {
        "n": ("bad", "size"),
        "mean": ("confidence", "mean"),
        "right": ("bad", "mean"),
        "offered": ("offered", "mean"),
    }
    found = printed.groupby(of, observed=True).agg(**asked)
    found["low"], found["high"] = zip(
        *(wilson(round(n * r), n) for n, r in zip(found.n, found.right, strict=True)), strict=True
    )
    return found


def lines(name: str, printed: pd.DataFrame) -> Iterator[str]:
    """The table of one source, of those that FAIL and of all others."""
    for said, some in (("FAIL", printed[printed.outcome == "fail"]), ("do not", printed[printed.outcome != "fail"])):
        yield f"{name}: {len(some)} suspects that {said}"
        if some.empty:
            continue
        yield f"  {'printed':<14}{'n':>6}{'mean':>8}{'right':>8}{'offered':>9}   95 % interval of right"
        for bounds, row in classes(some).iterrows():
            wide = (
                "" if row.low <= row["mean"] <= row.high else "  too sure" if row["mean"] > row.high else "  too modest"
            )
            numbers = f"{row.n:>6.0f}{row['mean']:>8.1%}{row.right:>8.1%}{row.offered:>9.1%}"
            yield f"  {bounds!s:<14}{numbers}   {row.low:.1%} to {row.high:.1%}{wide}"
        share = some.bad.mean()
        score = ((some.confidence - some.bad) ** 2).mean()
        yield f"  Brier score {score:.4f} (one number for all: {share * (1 - share):.4f})"


def draw(path: Path, printed: pd.DataFrame) -> None:
    """The reliability curves of those that FAIL, beside the diagonal that they should follow; .svg or .png."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, some in printed[printed.outcome == "fail"].groupby("source"):
        rows = classes(some)
        apart = [(rows.right - rows.low).clip(lower=0), (rows.high - rows.right).clip(lower=0)]
        axes.errorbar(rows["mean"], rows.right, yerr=apart, marker="o", markersize=4, capsize=2, label=name)
    axes.set(xlabel="printed confidence", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    """Print a table for each source and for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seeds", default="101:104", help="FIRST:LAST, the last one left out; of real pairs")
    parser.add_argument("--parts", type=int, default=25, help="healthy parts of each real set and seed; 0: none")
    parser.add_argument("--wrong", type=float, help="list the wrong ones of this confidence or more")
    parser.add_argument("--draw", type=Path, help="an .svg or .png of the curves")
    asked = parser.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    found = {path.stem: pd.read_csv(path) for path in asked.files}
    if asked.parts:
        found["real pairs"] = pd.DataFrame(on_real_pairs(range(first, last), asked.parts))
    every = pd.concat([frame.assign(source=name) for name, frame in found.items()])
    for name, frame in (found | {"all": every}).items() if len(found) > 1 else found.items():
        print("\n".join(lines(name, frame)))
    if asked.wrong is not None:
        wrong = every[~every.bad & (every.confidence >= asked.wrong)]
        print(
            wrong.to_string(
                columns=["of", "seed", "planted", "component", "outcome", "confidence", "offered"], index=False
            )
        )
    if asked.draw:
        draw(asked.draw, every)


if __name__ == "__main__":
    main()
