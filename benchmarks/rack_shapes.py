"""
Racks as they are built, each through the shipped burn-in: does a clean one end well, is a bad cable in it named?

    python benchmarks/rack_shapes.py [--seeds 101:104] [--shapes one-tor,rail-only] [--for 2] [--clean] [--save F.csv]

Some dozen simulated racks of 8 to 16 hosts, `scenarios/burn-in.yaml` on them, so many hours long. Each seed plays once
with nothing wrong, and once with one slow cable of a host (at 40 to 80 %). Printed are the outcome, what became of the
cable (`benchmarks/scoring.py`), healthy parts that FAIL, and what of the hall-wide curve was reached.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.scoring import RIGHT, Planted, Scored, Silent, save, scored
from benchmarks.shapes import ROOT, Shape, inventory
from fabric.app.prepare import Given, prepare
from fabric.app.run import run
from fabric.config.inventory import load_inventory
from fabric.model.inventory import NOISES
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.report.verdict_json import exit_code
from fabric.wiring import BACKENDS


def _switches(names: str, tier: str, to: str = "", count: int = 1) -> str:
    up = f', uplinks: {{to: "{to}", count: {count}, line_rate_gbps: 400}}' if to else ""
    return f'{{names: "{names}", tier: {tier}{up}}}'


def _two(leaves: str, spines: str, count: int = 1) -> tuple[str, str]:
    return _switches(leaves, "leaf", spines, count), _switches(spines, "spine")


def _on(*leaves: str) -> str:
    """The leaf of each rail, as a list of YAML."""
    return f"[{', '.join(leaves)}]"


_A_AND_B = _on("tor{unit}a", "tor{unit}b", "tor{unit}a", "tor{unit}b")
SHAPES = {
    "two-leaves-4-rails": Shape(8, 8, _two("leaf[0-1]", "spine[0-3]", 4), leaves=_on(*["leaf0"] * 2, *["leaf1"] * 2)),
    "two-leaves-8-rails": Shape(
        8, 8, _two("leaf[0-1]", "spine[0-3]", 8), rails=8, leaves=_on(*["leaf0"] * 4, *["leaf1"] * 4)
    ),
    "one-tor": Shape(8, 8, (_switches("tor0", "leaf"),), leaves="tor0"),
    "tor-a-unit": Shape(12, 4, _two("tor[0-2]", "spine[0-3]", 4), leaves="tor{unit}"),
    "rail-only": Shape(8, 8, (_switches("leaf[0-3]", "leaf"),), leaves="leaf{rail}"),
    "spines-not-described": Shape(12, 6, (_switches("su[0-1]-leaf[0-3]", "leaf"),)),
    "dual-tor": Shape(12, 6, _two("tor[0-1]a,tor[0-1]b", "spine[0-3]", 3), leaves=_A_AND_B),
    "dual-tor-bonded": Shape(12, 6, _two("tor[0-1]", "spine[0-3]", 6), leaves="tor{unit}"),
    "dual-plane": Shape(
        12, 6, (*_two("tor[0-1]a", "a-spine[0-3]", 3), *_two("tor[0-1]b", "b-spine[0-3]", 3)), leaves=_A_AND_B
    ),
    "three-levels-few-cores": Shape(
        16,
        4,
        (
            _switches("su[0-1]-leaf[0-1]", "leaf", "pod0-spine[0-3]"),
            _switches("su[2-3]-leaf[0-1]", "leaf", "pod1-spine[0-3]"),
            *(_switches(f"pod[0-1]-spine{n}", "spine", f"core{n}") for n in range(4)),
            _switches("core[0-3]", "core"),
        ),
        rails=2,
    ),
    "three-levels-planes": Shape(
        16,
        4,
        (
            *(_switches(f"su[0-1]-leaf{r}", "leaf", f"pod0-{r}-spine[0-1]", 1) for r in range(2)),
            *(_switches(f"su[2-3]-leaf{r}", "leaf", f"pod1-{r}-spine[0-1]", 1) for r in range(2)),
            *(_switches(f"pod[0-1]-{r}-spine{n}", "spine", f"core{r}-{n}", 2) for r in range(2) for n in range(2)),
            _switches("core[0-1]-[0-1]", "core"),
        ),
        rails=2,
    ),
    "tapered": Shape(12, 6, _two("su[0-1]-leaf[0-3]", "spine[0-2]")),
    "three-to-one-adaptive": Shape(12, 6, _two("su[0-1]-leaf[0-3]", "spine[0-1]"), routing="ar"),
    "roce-ecmp": Shape(
        12,
        6,
        tuple(
            f'{one[:-1]}, address: "{{name}}.mgmt", management: nvue}}'
            for one in _two("su[0-1]-leaf[0-3]", "spine[0-5]")
        ),
        layer="ethernet",
        routing="ecmp",
    ),
    "unlike-hosts": Shape(12, 6, _two("tor[0-1]", "spine[0-3]", 6), leaves="tor{unit}", other=6),
}


@dataclass(frozen=True)
class Played:
    """What came of one run: its outcome, the score of what was planted, reasons, and the least share of the curve."""

    outcome: Outcome
    exit_code: int
    planted: tuple[Planted, ...]
    score: Scored
    reasons: tuple[str, ...]
    of_bound: float


def drawn(topology: Topology, random: np.random.Generator) -> Planted:
    """A slow cable of a host."""
    host = topology.hosts[list(topology.hosts)[int(random.integers(len(topology.hosts)))]]
    name = f"{host.name}/{host.platform.rnics[int(random.integers(len(host.platform.rnics)))].device}"
    left = random.uniform(0.4, 0.8)
    return Planted("cable", f"{name}:port:slow={left:.2f}", frozenset({f"{name}:port", name}))


def played(name: str, seed: int, hours: float, folder: Path, *, bad: bool, noise: str = "clean") -> Played:
    """The shipped burn-in on a rack of this shape."""
    folder.mkdir(exist_ok=True)
    path = inventory(SHAPES[name], folder, noise)
    topology = load_inventory(path).topology
    faults = (drawn(topology, np.random.default_rng((seed, *name.encode()))),) if bad else ()
    given = Given(
        ROOT / "scenarios" / "burn-in.yaml",
        inventory=path,
        lasts_s=hours * 3600,
        faults=tuple(fault.text for fault in faults),
    )
    asked = prepare(given)
    found = run(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, seed),
        results=folder / "results",
        seed=seed,
        observer=Silent(),  # type: ignore[arg-type]
        reports=False,
    )
    verdict = found.judged.verdict
    points = verdict.hall.points if verdict.hall else ()
    shares = [point.gbps / point.bound_gbps for point in points if point.gbps and point.bound_gbps]
    score = scored(verdict, faults, topology)
    return Played(verdict.outcome, exit_code(verdict), faults, score, verdict.lines, min(shares, default=0.0))


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101:103", help="FIRST:LAST, the last one left out")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--for", dest="hours", type=float, default=2.0, help="hours")
    parser.add_argument("--clean", action="store_true", help="only with nothing wrong")
    parser.add_argument("--noise", choices=NOISES, default="clean")
    parser.add_argument("--save", type=Path, help="a CSV file of all suspects, for benchmarks/calibration.py")
    asked = parser.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    counts: Counter[str] = Counter()
    every: list[tuple[str, int, tuple[Planted, ...], Scored]] = []
    for name in asked.shapes.split(","):
        for seed in range(first, last):
            for bad in (False,) if asked.clean else (False, True):
                with TemporaryDirectory() as folder:
                    one = played(name, seed, asked.hours, Path(folder), bad=bad, noise=asked.noise)
                every.append((name, seed, one.planted, one.score))
                what = f"{one.planted[0].text} {one.score.found[0]}" if bad else "clean"
                healthy = f"; healthy: {', '.join(one.score.healthy[:4])}" if one.score.healthy else ""
                print(
                    f"{name}, seed {seed}: {what}: exit {one.exit_code}, curve {one.of_bound:.0%}{healthy}", flush=True
                )
                if not bad and one.exit_code:
                    print("".join(f"    {reason}\n" for reason in one.reasons[:8]), end="")
                counts["bad" if bad else "clean"] += 1
                counts["named"] += bad and one.score.found == (RIGHT,)
                counts["well"] += not bad and one.exit_code == 0
                counts["healthy"] += bool(one.score.healthy)
    print(
        f"{counts['well']} of {counts['clean']} clean racks end with exit 0; {counts['named']} of {counts['bad']} bad "
        f"cables are named first; runs that FAIL a healthy part: {counts['healthy']}"
    )
    if asked.save:
        save(asked.save, every)


if __name__ == "__main__":
    main()
