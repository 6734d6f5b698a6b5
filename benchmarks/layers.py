"""
How well pair tests find bad switches and the cables between them, through the mock, in several kinds of fabrics.

    python benchmarks/layers.py [--seeds 101:103] [TABLE...]

Each case is one run of scenarios/localise.yaml with one fault in a part that the seed chooses. *named*: the part alone.
*offered*: among a suspect and those that cannot be told apart from it. *wrong*: a suspect that is neither the part nor
offered beside it, or a cable that the inventory does not have.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FABRIC = (sys.executable, "-c", "import sys; from fabric.cli.main import run; sys.argv[0] = 'fabric'; sys.exit(run())")
TIMEOUT_S = 600

_TWO_LEAVES = """
name: two-leaves
backend: mock
platforms:
  h100-one-rail:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 1
    gpus: [{index: 0-1, numa: 0}]
    rnics: [{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}]
hosts:
  - {names: "gpu[001-016]", platform: h100-one-rail, rack: "r{unit}", leaves: "leaf{unit}", hosts_per_unit: 8}
switches:
  - {names: "leaf[0-1]", tier: leaf, uplinks: {to: "spine[0-3]", count: 2, line_rate_gbps: 400}}
  - {names: "spine[0-3]", tier: spine}
"""

TABLES: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "three-levels-spine": ("three-level", ("p{2}-spine{4}",), (0.5, 0.8)),
    "three-levels-uplink": ("three-level", ("u{2}-leaf{2}--p0-spine{4}",), (0.5, 0.8)),
    "three-levels-core": ("three-level", ("core0{8}",), (0.4, 0.8)),
    "spine-of-8-rails": ("pod-64", ("spine0{8}",), (0.5, 0.8)),
    "one-leaf-of-two": ("two-leaves", ("leaf{2}",), (0.6, 0.8)),
    "roce-leaf": ("roce", ("tor{4}",), (0.6, 0.8)),
    "roce-host": ("roce", ("node0{9}/mlx5_{4}",), (0.7, 0.9)),
    "roce-uplink": ("roce", ("tor{4}--spine{4}",), (0.4, 0.7)),
    "roce-spine": ("roce", ("spine{4}",), (0.5, 0.7)),
}
"""By name: the inventory, parts of which one is chosen (``{n}``: one of n numbers), and what they keep."""

ALSO = {"roce-leaf": "{}:uplinks", "roce-uplink": "{leaf}:uplinks spines", "roce-spine": "spines"}
"""What as much as names a part where the path of a test is not known."""


def chosen(pattern: str, draw: random.Random) -> str:
    """A part: each ``{n}`` becomes one of n numbers."""
    while "{" in pattern:
        before, _, rest = pattern.partition("{")
        count, _, after = rest.partition("}")
        first = 1 if "node" in before and "/" not in before else 0
        pattern = f"{before}{first + draw.randrange(int(count))}{after}"
    return pattern


def suspects(inventory: str, fault: str, seed: int) -> list[dict[str, object]]:
    """Of one run of the shipped scenario."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(ROOT / "inventory", place / "inventory")
        for file in (ROOT / "benchmarks" / "golden").glob("*.yaml"):
            shutil.copy(file, place / "inventory")
        (place / "inventory" / "two-leaves.yaml").write_text(_TWO_LEAVES)
        words = ("run", str(ROOT / "scenarios" / "localise.yaml"), "--inventory", f"inventory/{inventory}.yaml")
        subprocess.run(
            [*FABRIC, *words, "--no-html", "--seed", str(seed), "--fault", fault],
            cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        (verdict,) = place.glob("results/*/latest/verdict.json")
        found: list[dict[str, object]] = json.loads(verdict.read_text("utf-8"))["suspects"]
        return found


def tallied(table: str, seed: int) -> tuple[Counter[str], str]:
    """One case, and what was said of it."""
    inventory, patterns, kept = TABLES[table]
    draw = random.Random(f"{table} {seed}")
    part, share = chosen(draw.choice(patterns), draw), draw.choice(kept)
    found = suspects(inventory, f"{part}:slow={share}", seed)
    leaf = part.split("--", maxsplit=1)[0]
    right = {part, *ALSO.get(table, "").format(part, leaf=leaf).split()}
    names = [{str(one["component"]), *map(str, one["ambiguous_with"])} for one in found]  # type: ignore[call-overload]
    named = [str(one["component"]) for one in found] == [part] and len(names[0]) == 1
    offered = any(right & those for those in names)
    wrong = any(not right & those for those in names)
    tally = Counter(cases=1, named=named, offered=offered, wrong=wrong)
    said = "; ".join(f"{one['component']} {one['outcome']} {one['confidence']}" for one in found)
    return tally, f"    {seed}: {part}:slow={share}: {said or 'nobody'}"


def main() -> None:
    """Print a row for each table, and the cases in which the part is not offered or another is."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLE")
    options.add_argument("--seeds", default="101:103")
    asked = options.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    for table in asked.tables:
        total = Counter[str]()
        lines = []
        for seed in range(first, last):
            tally, said = tallied(table, seed)
            total += tally
            if tally["wrong"] or not tally["offered"]:
                lines.append(said)
        print(
            f"  {table:<20} {total['named']:>3} named, {total['offered']:>3} offered of {total['cases']}, "
            f"{total['wrong']} with a wrong one",
            *lines, sep="\n", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
