"""
Racks as they are built, each through the shipped burn-in: does a clean one end well, is a bad cable in it named?

    python benchmarks/rack_shapes.py [--seeds 101:104] [--shapes one-tor,rail-only] [--for 3h] [--clean]

A dozen simulated hosts of each shape, `scenarios/burn-in.yaml` on them. Each seed once with nothing wrong and once with
one slow cable of a host. Printed are the outcome, who was named, and what the plan says cannot be loaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.scoring import Planted, Silent, scored
from benchmarks.shapes import ROOT, Shape, inventory
from fabric.app.prepare import Given, prepare
from fabric.app.run import run
from fabric.config import load_inventory
from fabric.errors import ConfigError
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import JudgedRun
from fabric.wiring import BACKENDS


def _switches(names: str, tier: str, to: str = "", count: int = 1) -> str:
    up = f', uplinks: {{to: "{to}", count: {count}, line_rate_gbps: 400}}' if to else ""
    return f'{{names: "{names}", tier: {tier}{up}}}'


def _two_levels(leaves: str, spines: str, count: int = 1) -> tuple[str, str]:
    return _switches(leaves, "leaf", spines, count), _switches(spines, "spine")


def _on(*leaves: str) -> str:
    """The leaf of each rail, as a list of YAML."""
    return f"[{', '.join(leaves)}]"


SHAPES = {
    "two-leaves-4-rails": Shape(
        8, 8, _two_levels("leaf[0-1]", "spine[0-3]", 4), leaves=_on("leaf0", "leaf0", "leaf1", "leaf1")
    ),
    "two-leaves-8-rails": Shape(
        8, 8, _two_levels("leaf[0-1]", "spine[0-3]", 8), rails=8, leaves=_on(*["leaf0"] * 4, *["leaf1"] * 4)
    ),
    "one-tor": Shape(8, 8, (_switches("tor0", "leaf"),), leaves="tor0"),
    "tor-a-unit": Shape(12, 4, _two_levels("tor[0-2]", "spine[0-3]", 4), leaves="tor{unit}"),
    "rail-only": Shape(8, 8, (_switches("leaf[0-3]", "leaf"),), leaves="leaf{rail}"),
    "rail-only-two-units": Shape(12, 6, (_switches("su[0-1]-leaf[0-3]", "leaf"),)),
    "dual-tor": Shape(
        12,
        6,
        _two_levels("tor[0-1]a,tor[0-1]b", "spine[0-3]", 3),
        leaves=_on("tor{unit}a", "tor{unit}b", "tor{unit}a", "tor{unit}b"),
    ),
    "dual-plane": Shape(
        12,
        6,
        (*_two_levels("tor[0-1]a", "a-spine[0-3]", 3), *_two_levels("tor[0-1]b", "b-spine[0-3]", 3)),
        leaves=_on("tor{unit}a", "tor{unit}b", "tor{unit}a", "tor{unit}b"),
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
    "tapered": Shape(12, 6, _two_levels("su[0-1]-leaf[0-3]", "spine[0-1]")),
    "three-to-one-adaptive": Shape(12, 6, _two_levels("su[0-1]-leaf[0-3]", "spine[0-1]"), routing="ar"),
    "roce-ecmp": Shape(12, 6, _two_levels("su[0-1]-leaf[0-3]", "spine[0-5]"), layer="ethernet", routing="ecmp"),
    "mixed": Shape(12, 6, _two_levels("tor[0-1]", "spine[0-3]", 6), leaves="tor{unit}", other=6),
}


def burned_in(shape: Shape, folder: Path, hours: float, seed: int, faults: tuple[str, ...] = ()) -> JudgedRun:
    """The shipped burn-in on a rack of this shape."""
    scenario = ROOT / "scenarios" / "burn-in.yaml"
    path = inventory(shape, folder, "clean")
    asked = prepare(Given(scenario, inventory=path, lasts_s=hours * 3600, faults=faults))
    return run(
        asked,
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=folder / "results",
        seed=seed,
        observer=Silent(),  # type: ignore[arg-type]
        reports=False,
    )


def drawn(topology: Topology, random: np.random.Generator) -> Planted:
    """A slow cable of a host."""
    host = topology.hosts[list(topology.hosts)[int(random.integers(len(topology.hosts)))]]
    rnic = host.platform.rnics[int(random.integers(len(host.platform.rnics)))].device
    component = f"{host.name}/{rnic}:port"
    return Planted(
        "cable", f"{component}:slow={random.uniform(0.4, 0.8):.2f}", frozenset({component, f"{host.name}/{rnic}"})
    )


def played(name: str, seed: int, hours: float, *, bad: bool) -> Iterator[str]:
    """What came of one run."""
    shape = SHAPES[name]
    with TemporaryDirectory() as text:
        folder = Path(text)
        topology = load_inventory(inventory(shape, folder, "clean")).topology
        faults = [drawn(topology, np.random.default_rng((seed, *name.encode())))] if bad else []
        try:
            judged = burned_in(shape, folder, hours, seed, tuple(fault.text for fault in faults))
        except ConfigError as exc:
            yield f"{name}, seed {seed}: exit 2: {exc}"
            return
        score = scored(judged.verdict, faults, topology)
        what = f"{faults[0].text} {score.found[0]}" if faults else "clean"
        healthy = f"; healthy: {', '.join(score.healthy[:4])} ({len(score.healthy)})" if score.healthy else ""
        yield f"{name}, seed {seed}: {what}: {judged.verdict.outcome.name}{healthy}"
        if judged.verdict.outcome is not Outcome.PASS and not faults:
            yield from (
                f"    {one.component} {one.outcome.name}: {one.evidence[-1]}" for one in judged.verdict.suspects[:4]
            )
            yield from (f"    {note}" for note in judged.verdict.reasons[:8])


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101:102", help="FIRST:LAST, the last one left out")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--for", dest="hours", type=float, default=3.0, help="hours")
    parser.add_argument("--clean", action="store_true", help="only with nothing wrong")
    asked = parser.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    for name in asked.shapes.split(","):
        for seed in range(first, last):
            for bad in (False,) if asked.clean else (False, True):
                for line in played(name, seed, asked.hours, bad=bad):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
