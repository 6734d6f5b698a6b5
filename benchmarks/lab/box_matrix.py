"""
What the product says of real faults on real traffic: boxes of network namespaces x faults x runs. Root.

``python benchmarks/lab/box_matrix.py [--hosts 6] [--hosts 12] [--runs 3] [--only 'spine*'] [--out F] [--results DIR]``;
with ``--mock`` the same on the simulated rack, given the same inventories: no root. The victim moves from run to run,
and with it the simulated rack's seed. A row is right when the first suspect is the broken part (or where it cannot be
told apart is named with it), no suspect is a healthy part, and nothing that costs a tenth or more is a PASS.
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

from click.testing import CliRunner  # noqa: E402

from benchmarks.lab.lab import own_environment  # noqa: E402
from fabric import lab as machine  # noqa: E402
from fabric.cli.main import main as command_line  # noqa: E402
from fabric.lab.layout import Box, baseline_text, inventory_text  # noqa: E402

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


ONLY_IN_A_BOX = ("cable loses 10 %", "one path left")
"""The mock's links lose by bit errors, which no inventory gives; its tables are what its routing says."""


def in_mock(text: str) -> str:
    """A fault in the words of the mock."""
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


def judged(case: Case, box: Box, number: int, results: Path, scenario: Path, inventory: Path | None = None) -> Row:
    """Break, measure, mend; the victim follows from the run's number. With an *inventory* all of it is simulated."""
    hosts = list(box.leaf_of)
    host, other = hosts[number * 5 % len(hosts)], hosts[(number * 5 + 2) % len(hosts)]
    words = {"h": host, "g": other, "l": box.leaf_of[host], "s": box.spine_names[number % box.spines]}
    faults = tuple(text.format(**words) for text in case.faults)
    began_s = time.monotonic()
    if inventory is not None:
        said = simulated(inventory, scenario, results, [in_mock(text) for text in faults], number)
    else:
        for text in faults:
            machine.break_part(box.name, text)
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
    parser.add_argument("--mock", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    if not given.mock:
        machine.refuse_where_impossible()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="box-matrix-") as place:
        for hosts in given.hosts or [6]:
            name = f"matrix{hosts}"
            box = Box(name, str(machine.STATE / name), hosts=hosts, leaves=2 if hosts < 12 else 3)
            inventory = Path(place) / f"{name}.yaml"
            if given.mock:
                (inventory.parent / "baselines").mkdir(exist_ok=True)
                inventory.write_text(inventory_text(box, with_mpi=False))
                (inventory.parent / "baselines" / inventory.name).write_text(baseline_text(box))
            else:
                machine.up(box, inventory)
            cases = [case for case in CASES if fnmatch.fnmatch(case.name, given.only)]
            try:
                for case in (case for case in cases if not given.mock or case.name not in ONLY_IN_A_BOX):
                    for number in range(given.runs):
                        simulate = inventory if given.mock else None
                        row = judged(case, box, number, given.results, ROOT / "scenarios" / "box.yaml", simulate)
                        rows.append(row)
                        print(_line(row, case), flush=True)
                        if given.out is not None:
                            with given.out.open("a") as out:
                                out.write(json.dumps(asdict(row)) + "\n")
            finally:
                if not given.mock:
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
