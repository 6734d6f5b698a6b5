"""
What the product says of real faults on real traffic: boxes of network namespaces x faults x runs. Root.

``python benchmarks/lab/box_matrix.py [--hosts 6] [--hosts 12] [--runs 3] [--only 'spine*'] [--out F] [--results DIR]``;
with ``--mock`` the same on the simulated rack, given the same inventories: no root. The victim moves from run to run
(``--first 3``: go on with the fourth), and with it the simulated rack's seed. A row is right when the first suspect is
the broken part (or where it cannot be told apart is named with it), no suspect is a healthy part, and nothing that
costs a tenth or more is a PASS. ``--table F [--table G]`` prints what such files of rows hold, side by side.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from click.testing import CliRunner  # noqa: E402

from benchmarks.lab.lab import own_environment  # noqa: E402
from fabric import lab as machine  # noqa: E402
from fabric.cli.main import main as command_line  # noqa: E402
from fabric.lab.layout import Box, baseline_text, inventory_text  # noqa: E402

LONGEST_S = 300.0
LEAVES = {6: 2, 12: 3, 24: 4}
"""Leaves of a box of so many hosts; of any other two."""


@dataclass(frozen=True, slots=True)
class Case:
    """*faults* and *right* (parts that may be named, as patterns) speak of host {h}, its leaf {l} and spine {s}."""

    name: str
    faults: tuple[str, ...]
    right: tuple[str, ...]
    costs: bool = True  # a tenth or more of what some pair carries, so that it must not PASS
    scenario: str = "pairs"


HOST = ("{h}", "{h}/*", "{h}:*")
SPINE = ("{s}", "{s}-*", "{s}:*", "l*--{s}", "l*->{s}", "spines")
UPLINKS = (*SPINE, "{l}:*", "{l}", "{l}-*")
CASES = (
    Case("none", (), (), costs=False),
    Case("host tx slow", ("{h}/mlx5_0:tx:slow=0.3",), HOST),
    Case("host rx slow", ("{h}/mlx5_0:rx:slow=0.3",), HOST),
    Case("leaf port slow", ("{h}/mlx5_0:slow=0.6",), HOST),
    Case("uplink slow", ("{l}--{s}:slow=0.2",), UPLINKS),
    Case("uplink one way", ("{l}->{s}:slow=0.2",), UPLINKS),
    Case("spine slow", ("{s}:slow=0.2",), SPINE),
    Case("spine grey", ("{s}:grey",), SPINE),
    Case("cable down", ("{h}/mlx5_0:down",), HOST),
    Case("cable flapping", ("{h}/mlx5_0:flapping",), HOST),
    Case("MPI rank slow", ("{h}/mlx5_0:slow=0.3",), HOST, scenario="rings"),
    Case("two faults", ("{h}/mlx5_0:tx:slow=0.3", "{g}/mlx5_0:rx:slow=0.4"), (*HOST, "{g}/*", "{g}:*", "{g}")),
    Case("cable loses 10 %", ("{h}/mlx5_0:tx:loss=0.1",), HOST),
    Case("host hung", ("{h}:hung",), HOST),
    Case("no data network", ("l1:dead", "l2:dead"), ("l*", "s*", "spines", "h?", "h?/mlx5_0*")),
    Case("uplink down", ("{l}--{s}:down",), UPLINKS, costs=False),
    Case("uplink flapping", ("{l}--{s}:flapping",), UPLINKS, costs=False),
    Case("one path left", ("{l}:one_path",), UPLINKS, costs=False),
    Case("spine dead", ("{s}:dead",), SPINE, costs=False),
)
"""The first twelve, and 2 % of loss (test_soft_roce.py), are what the product has to tell apart."""

RINGS = """\
name: rings
description: All-reduces of pairs under one leaf, over MPI
hosts: all
phases:
  - name: rings
    probes: [tor_all_reduce: {sizes: [1M], iterations: 20}]
"""


PAIRS = ROOT / "scenarios" / "box.yaml"
"""The scenario of all other cases."""

ONLY_IN_A_BOX = ("cable loses 10 %", "one path left")
"""The mock's links lose by bit errors, which no inventory gives; its tables are what its routing says."""


def with_flaps(inventory: str, faults: Sequence[str]) -> str:
    """The same with what flaps, which the mock takes as faults that come and go: half a second of every two."""
    flaps = [text.removesuffix(":flapping") for text in faults if text.endswith(":flapping")]
    rows = [f"{{component: {one}, kind: broken, at: {2 * at}s, lasts: 500ms}}" for one in flaps for at in range(400)]
    return inventory.replace("mock: {", f"mock: {{timed_faults: [{', '.join(rows)}], ") if rows else inventory


def in_mock(text: str) -> str:
    """A fault that stays in the words of the mock."""
    component, _, kind = text.rpartition(":")
    if kind.startswith("slow") and component.endswith("mlx5_0"):
        return f"{component}:port:{kind}"
    return f"{component}:{ {'down': 'broken', 'dead': 'broken', 'hung': 'hanging'}.get(kind, kind) }"


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
    load: float = 0.0  # of this machine, when it was over: bytes are real, and so is what else runs here


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


def simulated(inventory: Path, scenario: Path, results: Path, faults: Sequence[str], seed: int) -> dict[str, Any]:
    """The verdict of a run on the simulated rack with these faults."""
    words = ["run", str(scenario), f"--inventory={inventory}", f"--results={results}", "--json", "--backend=mock"]
    words += [f"--seed={seed}", *(f"--fault={text}" for text in faults)]
    done = CliRunner().invoke(command_line, words)
    if not done.stdout:
        raise OSError(done.stderr[-2000:])
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def judged(case: Case, box: Box, number: int, results: Path, inventory: Path | None = None, pairs: Path = PAIRS) -> Row:
    """
    Break, measure by the scenario *pairs*, mend; the victim follows from the run's number.

    With an *inventory* all of it is simulated.
    """
    scenario = pairs
    if case.scenario == "rings":
        scenario = results / "rings.yaml"
        scenario.parent.mkdir(parents=True, exist_ok=True)
        scenario.write_text(RINGS)
    hosts = list(box.leaf_of)
    host, other = hosts[number * 5 % len(hosts)], hosts[(number * 5 + 2) % len(hosts)]
    words = {"h": host, "g": other, "l": box.leaf_of[host], "s": box.spine_names[number % box.spines]}
    faults = tuple(text.format(**words) for text in case.faults)
    began_s = time.monotonic()
    if inventory is not None:
        flapping = inventory.with_stem("flapping")
        flapping.write_text(with_flaps(inventory.read_text(), faults))
        there = [in_mock(text) for text in faults if not text.endswith(":flapping")]
        said = simulated(flapping, scenario, results, there, number)
    else:
        for text in faults:
            machine.break_part(box.name, text)
        try:
            said = measure(box.name, scenario, results)
        finally:
            machine.mend(box.name)
    wall_s = time.monotonic() - began_s
    run = str(said["path"])
    named = tuple(suspect["component"] for suspect in said["suspects"])
    right = [pattern.format(**words) for pattern in case.right]
    wrong = tuple(name for name in named if not _is_of(name, right))
    first = bool(named) and wrong[:1] != named[:1] if faults else not named
    passed = said["outcome"] in ("pass", "marginal")
    counts = sum(said["counts"].values())
    return Row(
        case.name,
        box.hosts,
        faults,
        said["outcome"],
        named,
        first,
        wrong,
        passed,
        counts,
        wall_s,
        run,
        os.getloadavg()[0],
    )


def _is_of(name: str, patterns: Sequence[str]) -> bool:
    """Whether a suspect is one of the parts; of several that are named as one (``h1+h2``) all have to be."""
    return all(any(fnmatch.fnmatch(part, pattern) for pattern in patterns) for part in re.split(r"[+ ,]+", name))


def main() -> None:
    """Print a row for each run and the shares of the whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--hosts", type=int, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--mock", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, action="append")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    if given.table:
        print("\n".join(table(*(_read(path) for path in given.table))))
        return
    if not given.mock:
        machine.refuse_where_impossible()
    cases = [case for case in CASES if any(fnmatch.fnmatch(case.name, one) for one in given.only or ["*"])]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="box-matrix-") as place:
        for hosts in given.hosts or [6]:
            for row in _rows(hosts, cases, Path(place), given):
                rows.append(row)
                print(_line(row), flush=True)
                if given.out is not None:
                    with given.out.open("a") as out:
                        out.write(json.dumps(asdict(row)) + "\n")
    print("\n".join(shares(rows)))


def _rows(hosts: int, cases: Sequence[Case], place: Path, given: argparse.Namespace) -> Iterator[Row]:
    """Every run of one size."""
    name = f"matrix{hosts}"
    box = Box(name, str(machine.STATE / name), hosts=hosts, leaves=LEAVES.get(hosts, 2))
    inventory = place / f"{name}.yaml"
    numbers = range(given.first, given.first + given.runs)
    if given.mock:
        (place / "baselines").mkdir(exist_ok=True)
        inventory.write_text(inventory_text(box, with_mpi=True))
        (place / "baselines" / inventory.name).write_text(baseline_text(box))
        for case in (case for case in cases if case.name not in ONLY_IN_A_BOX):
            yield from (judged(case, box, number, given.results, inventory) for number in numbers)
        return
    machine.up(box, inventory)
    try:
        for case in cases:
            yield from (judged(case, box, number, given.results) for number in numbers)
    finally:
        machine.down(name)


def shares(rows: Sequence[Row]) -> list[str]:
    """What is promised, counted."""
    costly = {case.name for case in CASES if case.costs}
    faulty = [row for row in rows if row.case in costly]
    first = sum(row.first for row in faulty)
    return [
        f"{len(rows)} runs; with a fault that costs a tenth {len(faulty)}: the first suspect is right in {first}"
        + (f" ({100 * first / len(faulty):.0f} %)" if faulty else ""),
        f"runs with a healthy part among the suspects: {sum(bool(row.healthy) for row in rows)}",
        f"runs that pass with such a fault: {sum(row.passed for row in faulty)}",
        f"longest {max(row.wall_s for row in rows):.0f} s",
    ]


def table(*files: Sequence[Row]) -> list[str]:
    """Of each case and size how many runs were right, and what was said how often; one column a file, then shares."""
    lines = []
    for case in CASES:
        for hosts in sorted({row.hosts for rows in files for row in rows}):
            cells = [_cell([row for row in rows if (row.case, row.hosts) == (case.name, hosts)]) for rows in files]
            if any(cells):
                lines.append(f"{hosts:3} {case.name:17}" + "".join(f" | {cell:40}" for cell in cells).rstrip())
    return [*lines, *(line for rows in files for line in shares(rows))]


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    said = Counter(row.outcome for row in rows).most_common()
    right = sum(_verdict(row) in ("right", "routed") for row in rows)
    longest_s = max(row.wall_s for row in rows)
    return f"{right} of {len(rows)}, {', '.join(f'{count} {what}' for what, count in said)}, <= {longest_s:.0f} s"


def _read(path: Path) -> list[Row]:
    return [Row(**{**json.loads(line), "suspects": ()}) for line in path.read_text().splitlines()]


def _verdict(row: Row) -> str:
    costs = next(case.costs for case in CASES if case.name == row.case)
    if row.healthy:
        return "WRONG"
    if row.passed:
        return "PASSED" if costs else "right" if not row.faults else "routed"
    return "right" if row.first else "silent"


def _line(row: Row) -> str:
    said = ", ".join(row.suspects) or "nobody"
    cost = f"{row.probes:3} probes {row.wall_s:4.0f} s, load {row.load:2.0f}"
    return f"{row.hosts:3} {row.case:17} {_verdict(row):6} {row.outcome:12} {cost}  {said}"


if __name__ == "__main__":
    main()
