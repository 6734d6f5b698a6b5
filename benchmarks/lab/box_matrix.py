"""
What the product says of real faults on real traffic: boxes of network namespaces x faults x runs. Root.

``python benchmarks/lab/box_matrix.py [--hosts 6] [--hosts 12] [--runs 3] [--only 'spine*'] [--out F] [--results DIR]``;
the victim moves from run to run. A row is right when the first suspect is the broken part (or where it cannot be told
apart is named with it), no suspect is a healthy part, and nothing that costs a tenth or more is a PASS.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.lab.lab import own_environment  # noqa: E402
from fabric.lab import machine  # noqa: E402
from fabric.lab.layout import Box  # noqa: E402

LONGEST_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """*faults* and *right* (parts that may be named, as patterns) speak of host {h}, its leaf {l} and spine {s}."""

    name: str
    faults: tuple[str, ...]
    right: tuple[str, ...]
    costs: bool = True  # a tenth or more of what some pair carries, so that it must not PASS


HOST = ("{h}", "{h}/*", "{h}:*")
SPINE = ("{s}", "{s}-*", "{s}:*", "l*--{s}", "l*->{s}", "spines")
UPLINKS = (*SPINE, "{l}:*", "{l}", "{l}-*")
CASES = (
    Case("none", (), (), costs=False),
    Case("host tx slow", ("{h}/mlx5_0:tx:slow=0.3",), HOST),
    Case("leaf port slow", ("{h}/mlx5_0:rx:slow=0.3",), HOST),
    Case("cable slow", ("{h}/mlx5_0:slow=0.6",), HOST),
    Case("cable down", ("{h}/mlx5_0:down",), HOST),
    Case("cable loses 10 %", ("{h}/mlx5_0:tx:loss=0.1",), HOST),
    Case("host hung", ("{h}:hung",), HOST),
    Case("uplink slow", ("{l}--{s}:slow=0.2",), UPLINKS),
    Case("uplink one way", ("{l}->{s}:slow=0.2",), UPLINKS),
    Case("uplink down", ("{l}--{s}:down",), UPLINKS, costs=False),
    Case("one path left", ("{l}:one_path",), UPLINKS, costs=False),
    Case("spine slow", ("{s}:slow=0.2",), SPINE),
    Case("spine grey", ("{s}:grey",), SPINE),
    Case("spine dead", ("{s}:dead",), SPINE, costs=False),
    Case("two faults", ("{h}/mlx5_0:tx:slow=0.3", "{g}/mlx5_0:rx:slow=0.4"), (*HOST, "{g}/*", "{g}:*", "{g}")),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One run: what was broken, what was said, and whether that was right."""

    case: str
    hosts: int
    faults: tuple[str, ...]
    outcome: str
    suspects: tuple[str, ...]
    first: bool
    healthy: tuple[str, ...]
    passed: bool
    probes: int
    wall_s: float
    run: str


def measure(name: str, scenario: Path, results: Path, *more: str) -> dict[str, Any]:
    """The verdict of a run in a box, as ``--json`` prints it."""
    inventory = machine.status(name).inventory
    words = ("run", str(scenario), f"--inventory={inventory}", f"--results={results}", "--json", *more)
    code = "from fabric.cli.main import run; run()"
    argv = machine.enter(name, (sys.executable, "-c", code, *words))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONGEST_S, env=own_environment(), check=False)
    if not done.stdout:
        raise OSError(done.stderr[-2000:])
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def judged(case: Case, box: Box, number: int, results: Path, scenario: Path) -> Row:
    """Break, measure, mend; the victim follows from the run's number."""
    hosts = list(box.leaf_of)
    host, other = hosts[number * 5 % len(hosts)], hosts[(number * 5 + 2) % len(hosts)]
    words = {"h": host, "g": other, "l": box.leaf_of[host], "s": box.spine_names[number % box.spines]}
    faults = tuple(text.format(**words) for text in case.faults)
    for text in faults:
        machine.break_part(box.name, text)
    began_s = time.monotonic()
    try:
        said = measure(box.name, scenario, results)
    finally:
        machine.mend(box.name)
    wall_s = time.monotonic() - began_s
    run = str(max((results / "box").glob("2*")))
    named = tuple(suspect["component"] for suspect in said["suspects"])
    right = [pattern.format(**words) for pattern in case.right]
    wrong = tuple(name for name in named if not _is_of(name, right))
    first = bool(named) and wrong[:1] != named[:1] if faults else not named
    passed = said["outcome"] in ("pass", "marginal")
    counts = sum(said["counts"].values())
    return Row(case.name, box.hosts, faults, said["outcome"], named, first, wrong, passed, counts, wall_s, run)


def _is_of(name: str, patterns: Sequence[str]) -> bool:
    """Whether a suspect is one of the parts; of several that are named as one (``h1+h2``) all have to be."""
    return all(any(fnmatch.fnmatch(part, pattern) for pattern in patterns) for part in re.split(r"[+ ,]+", name))


def main() -> None:
    """Print a row for each run and the shares of the whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--hosts", type=int, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    machine.refuse_where_impossible()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="box-matrix-") as place:
        for hosts in given.hosts or [6]:
            name = f"matrix{hosts}"
            box = Box(name, str(machine.STATE / name), hosts=hosts, leaves=2 if hosts < 12 else 3)
            machine.up(box, Path(place) / f"{name}.yaml")
            try:
                for case in (case for case in CASES if fnmatch.fnmatch(case.name, given.only)):
                    for number in range(given.runs):
                        row = judged(case, box, number, given.results, ROOT / "scenarios" / "box.yaml")
                        rows.append(row)
                        print(_line(row, case), flush=True)
                        if given.out is not None:
                            with given.out.open("a") as out:
                                out.write(json.dumps(asdict(row)) + "\n")
            finally:
                machine.down(name)
    faulty = [row for row in rows if row.faults]
    print(f"{len(rows)} runs; with a fault {len(faulty)}: the first suspect is right in {sum(r.first for r in faulty)}")
    print(f"runs with a healthy part among the suspects: {sum(bool(row.healthy) for row in rows)}")
    print(f"longest {max(row.wall_s for row in rows):.0f} s")


def _line(row: Row, case: Case) -> str:
    missed = " PASSED" if row.passed and case.costs else ""
    good = "right" if row.first and not row.healthy else "WRONG" if row.healthy else "silent"
    said = ", ".join(row.suspects) or "nobody"
    head = f"{row.hosts:3} {row.case:17} {good:6} {row.outcome:12} {row.probes:3} probes {row.wall_s:4.0f} s"
    return f"{head}  {said}{missed}"


if __name__ == "__main__":
    main()
