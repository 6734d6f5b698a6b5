"""
The judge of pairs on results of two real clusters: faults planted in them, and healthy parts of them as they are.

    python benchmarks/real_pairs.py [FOLDER] [--seeds 101:104] [--sets 75]

FOLDER holds CSV files ``a,b,value_gbps``, one test between every two hosts; without it the four sets of tests/golden. A
fault scales all pairs of one to three hosts by 0.5 to 0.9; none, 20 or 40 % of the pairs are missing, at least six of
each bad host are left. A healthy part is six to all hosts with 60 to 100 % of their pairs. Goals: the bad hosts and
nobody else in 97 %; 1 % of the healthy parts FAIL. The locator was chosen on seeds 1 to 12.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.model.diagnosis import Diagnosis, PairRow
from fabric.model.outcome import Outcome

Pairs = list[tuple[str, str, float]]
SETS = Path(__file__).resolve().parents[1] / "tests" / "golden" / "verdicts" / "pairs"
_KEPT = (0.9, 0.8, 0.7, 0.5)
_BAD = (1, 1, 1, 2, 3)
_LEAST = 6


def read(path: Path) -> Pairs:
    """The rows of one file."""
    with path.open() as lines:
        return [(row["a"], row["b"], float(row["value_gbps"])) for row in csv.DictReader(lines)]


def judged(pairs: Pairs) -> Diagnosis:
    """What ``fabric diagnose`` makes of them."""
    return diagnose([PairRow(a, b, gbps, line) for line, (a, b, gbps) in enumerate(pairs, 1)])


def failed(pairs: Pairs) -> set[str]:
    """The hosts that FAIL."""
    return {s.component for s in judged(pairs).suspects if s.outcome is Outcome.FAIL and s.kind == "host"}


def parts(sets: dict[str, Pairs], random: np.random.Generator, count: int) -> Iterator[tuple[str, Pairs]]:
    """So many healthy parts of each set."""
    for name, pairs in sets.items():
        hosts = sorted({host for a, b, _ in pairs for host in (a, b)})
        for _ in range(count):
            kept = set(random.choice(hosts, int(random.integers(6, len(hosts) + 1)), replace=False).tolist())
            share = random.uniform(0.6, 1)
            yield name, [one for one in pairs if one[0] in kept and one[1] in kept and random.random() < share]


def cases(sets: dict[str, Pairs], random: np.random.Generator, count: int) -> Iterator[tuple[set[str], float, Pairs]]:
    """Who is bad, what they keep, and the pairs; *count* of each number of bad hosts and each loss."""
    for pairs in sets.values():
        hosts = sorted({host for a, b, _ in pairs for host in (a, b)})
        for bad, kept, _ in product(_BAD, _KEPT, range(count)):
            who = set(random.choice(hosts, bad, replace=False).tolist())
            missing = random.choice([0, 0.2, 0.4])
            some = [
                (a, b, gbps * kept if a in who or b in who else gbps)
                for a, b, gbps in pairs
                if random.random() >= missing
            ]
            if min(sum(host in one[:2] for one in some) for host in who) >= _LEAST:
                yield who, kept, some


def healthy(sets: dict[str, Pairs], random: np.random.Generator, count: int) -> int:
    """How many healthy parts FAIL somebody."""
    wrong = 0
    for name, some in parts(sets, random, count):
        named = failed(some)
        wrong += bool(named)
        if named:
            print(f"  healthy part of {name}, {len(some)} pairs: {', '.join(sorted(named))} FAIL")
    return wrong


def planted(sets: dict[str, Pairs], random: np.random.Generator, count: int) -> dict[tuple[int, float], Counter[str]]:
    """By number of bad hosts and what is kept: cases, exact ones, ones with a healthy host named."""
    found: dict[tuple[int, float], Counter[str]] = {}
    for who, kept, some in cases(sets, random, count):
        named = failed(some)
        tally = found.setdefault((len(who), kept), Counter())
        tally.update(cases=1, exact=named == who, wrong=bool(named - who))
    return found


def main() -> None:
    """Print a row for each kind of case and the sums."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?", default=SETS)
    options.add_argument("--seeds", default="101:104")
    options.add_argument("--sets", type=int, default=75, help="healthy parts of each file and seed")
    asked = options.parse_args()
    sets = {path.stem: read(path) for path in sorted(asked.folder.glob("*.csv"))}
    if not sets:
        options.error(f"{asked.folder}: no file *.csv")
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    began, wrong = time.process_time(), 0
    every = asked.sets * len(sets) * (last - first)
    rows: dict[tuple[int, float], Counter[str]] = {}
    for seed in range(first, last):
        random = np.random.default_rng(seed)
        wrong += healthy(sets, random, asked.sets)
        for key, tally in planted(sets, random, max(asked.sets // 12, 1)).items():
            rows.setdefault(key, Counter()).update(tally)
    print(f"healthy parts that FAIL: {wrong} of {every} ({wrong / every:.1%}; goal 1 %)")
    for (bad, kept), tally in sorted(rows.items()):
        print(
            f"  {bad} bad at {kept:.0%}: {tally['exact']} of {tally['cases']} exact, {tally['wrong']} with a good host"
        )
    total = sum(rows.values(), Counter[str]())
    share = total["exact"] / total["cases"]
    print(f"planted: {total['exact']} of {total['cases']} exact ({share:.1%}; goal 97 %), {total['wrong']} wrong")
    print(f"{(time.process_time() - began) / (every + total['cases']):.3f} s CPU a case")


if __name__ == "__main__":
    main()
