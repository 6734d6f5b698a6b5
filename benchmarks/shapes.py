"""
Does the judge name what is bad on fabrics of every shape, and on every layer of them?

    python benchmarks/shapes.py [--seeds 101:104] [--shapes hdr,roce] [--noise real|clean] [--several] [--save FILE.csv]

Eleven simulated fabrics of 12 to 24 hosts. Each seed plants one fault of each layer that the shape has, one a run; with
``--several`` also two and three at once, in different hosts; and nothing, once. Hosts measure inside and then in pairs,
as `scenarios/localise.yaml`. Every kind of fault takes its turn that shows within minutes. A cell of the table counts
right/offered/unsure/wrong/silent (`benchmarks/scoring.py`). ``--save`` writes every suspect for
`benchmarks/calibration.py`. Goals: 95 % right or offered, and healthy parts that FAIL in 1 % of the runs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.scoring import FOUND, OFFERED, RIGHT, Planted, Scored, played, save, scored
from fabric.config.inventory import load_inventory
from fabric.config.links import network_problem
from fabric.errors import Interrupted
from fabric.model.inventory import NOISES, PARTIAL
from fabric.model.topology import Host, Topology

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("host RNIC", "cable", "path PCIe", "GPU NVLink", "leaf", "uplink", "spine", "core")
LEFT = (0.5, 0.9)
"""What a slow part keeps."""

SCENARIO = """
name: shapes
inventory: {inventory}
hosts: all
phases:
  - name: intra-host
    probes:
      - loopback: {{size: 8M, duration: 5s}}
      - all_to_all: {{sizes: [4G], halves: true}}
  - name: pairs
    needs: [intra-host]
    localise: {{rounds: 10, budget: 20m, paths: {paths}}}
    probes:
      - pairwise: {{size: 64K, duration: 3s, queue_pairs: 1}}
"""


@dataclass(frozen=True)
class Shape:
    """
    A fabric: so many hosts, units of so many, and what joins them.

    *leaves* of a host (with ``{unit}`` and ``{rail}``); *switches* as lines of an inventory. The first *other* hosts
    are of the baseline *others*, or have one rail less where that is empty.
    """

    hosts: int
    unit: int
    switches: tuple[str, ...]
    rails: int = 4
    leaves: str = "su{unit}-leaf{rail}"
    baseline: str = "h100-ndr"
    others: str = ""
    other: int = 0
    rate_gbps: int = 400
    layer: str = "infiniband"
    pcie: bool = True
    routing: str = "ftree"
    paths: str = "static"


def _up(leaves: str, spines: str, count: int = 1, rate: int = 400) -> tuple[str, str]:
    return _joined(leaves, "leaf", spines, count, rate), f'{{names: "{spines}", tier: spine}}'


def _joined(names: str, tier: str, to: str, count: int = 1, rate: int = 400) -> str:
    return f'{{names: "{names}", tier: {tier}, uplinks: {{to: "{to}", count: {count}, line_rate_gbps: {rate}}}}}'


_TWO = "su[0-1]-leaf[0-3]"
SHAPES = {
    "24x4 two cables": Shape(24, 8, _up("su[0-2]-leaf[0-3]", "spine[0-3]", 2)),
    "2:1 tapered": Shape(12, 6, _up(_TWO, "spine[0-2]")),
    "parallel cables": Shape(12, 6, _up(_TWO, "spine[0-1]", 3)),
    "HDR": Shape(12, 6, _up(_TWO, "spine[0-5]", rate=200), baseline="a100-hdr", rate_gbps=200),
    "A100": Shape(12, 6, _up(_TWO, "spine[0-2]", 2, 200), baseline="a100-hdr", rate_gbps=200, pcie=False),
    "one leaf": Shape(12, 12, ("{names: leaf0, tier: leaf}",), leaves="leaf0"),
    "mixed generations": Shape(12, 6, _up(_TWO, "spine[0-5]"), others="b200-ndr", other=6),
    "dual plane": Shape(12, 6, (*_up("su[0-1]-leaf[0-1]", "a-spine[0-5]"), *_up("su[0-1]-leaf[2-3]", "b-spine[0-5]"))),
    "missing rail": Shape(12, 6, _up(_TWO, "spine[0-5]"), other=1),
    "RoCE": Shape(12, 6, _up(_TWO, "spine[0-5]"), layer="ethernet", routing="ecmp", paths="unknown"),
    "three levels": Shape(
        12,
        3,
        (
            *_up("su[0-1]-leaf[0-3]", "pod0-spine[0-2]")[:1],
            *_up("su[2-3]-leaf[0-3]", "pod1-spine[0-2]")[:1],
            *(_joined(f"pod[0-1]-spine{n}", "spine", f"core{n}-[0-7]") for n in range(3)),
            '{names: "core[0-2]-[0-7]", tier: core}',
        ),
    ),
}


def inventory(shape: Shape, folder: Path, noise: str) -> Path:
    """The inventory of a shape, on disk, with its baselines beside it."""
    if not (folder / "baselines").exists():
        shutil.copytree(ROOT / "inventory" / "baselines", folder / "baselines")
    lines = ["name: shape", "backend: mock", "platforms:", *_platform("usual", shape, shape.baseline, shape.rails)]
    if shape.other:
        rails = shape.rails if shape.others else shape.rails - 1
        lines += _platform("other", shape, shape.others or shape.baseline, rails)
    lines += ["hosts:", *_hosts(shape), "switches:", *(f"  - {line}" for line in shape.switches)]
    routing = "" if shape.routing == "ftree" else f", routing: {shape.routing}"
    lines.append(f"mock: {{noise: {noise}{routing}}}")
    path = folder / "shape.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _hosts(shape: Shape) -> Iterator[str]:
    for number in range(shape.hosts):
        platform = "other" if number < shape.other else "usual"
        leaves = shape.leaves.replace("{unit}", str(number // shape.unit))
        on = leaves if leaves.startswith("[") else f'"{leaves}"'  # a list: one leaf for each rail
        yield f"  - {{names: gpu{number + 1:03d}, platform: {platform}, leaves: {on}}}"


def _platform(name: str, shape: Shape, baseline: str, rails: int) -> Iterator[str]:
    """One GPU beside each RNIC, two of each on a PCIe switch (or straight on the CPU), half of them on each socket."""
    half = shape.rails // 2
    at = [f"pcie_switch: pcie{n // half}" if shape.pcie else f"numa: {n // half}" for n in range(shape.rails)]
    yield f"  {name}:"
    yield f"    baseline: {baseline}"
    yield f"    link_layer: {shape.layer}"
    yield "    numa_nodes: 2"
    if shape.pcie:
        yield "    pcie_switches: [{name: pcie0, numa: 0}, {name: pcie1, numa: 1}]"
    yield "    gpus:"
    yield from (f"      - {{index: {n}, {at[n]}}}" for n in range(shape.rails))
    yield "    rnics:"
    rate = f"line_rate_gbps: {shape.rate_gbps}"
    yield from (f"      - {{device: mlx5_{n}, rail: {n}, {at[n]}, {rate}, nearest_gpus: [{n}]}}" for n in range(rails))


def drawn(layer: str, topology: Topology, random: np.random.Generator, *, without: frozenset[str]) -> Planted | None:
    """One fault of a layer, on none of the hosts *without*; None where the shape has no such layer."""
    hosts = [host for name, host in topology.hosts.items() if name not in without]
    host = hosts[int(random.integers(len(hosts)))]
    if layer in ("leaf", "uplink", "spine", "core"):
        return _above(layer, topology, host, random)
    return _inside(layer, host, random)


def _inside(layer: str, host: Host, random: np.random.Generator) -> Planted:
    """A fault of a host or of a part of it."""
    rnic = host.platform.rnics[int(random.integers(len(host.platform.rnics)))].device
    gpu = host.platform.gpus[int(random.integers(len(host.platform.gpus)))].name
    numa = f"numa{int(random.integers(host.platform.numa_nodes))}"
    parts: dict[str, list[tuple[str, str]]] = {
        "host RNIC": [
            (f"/{rnic}", "slow erratic"),
            (f"/{rnic}", "slow slow broken hanging absent hot"),
            ("", "slow erratic hanging garbage"),
        ],
        "cable": [(f"/{rnic}:port", "slow slow erratic")],
        "path PCIe": [
            (f"/{rnic}->{gpu}", "slow broken hanging"),
            (f"/{rnic}->{numa}-gpus", "slow"),
            (f"/{numa}", "slow"),
            *((f"/{switch.name}", "slow slow broken") for switch in host.platform.pcie_switches[:1]),
        ],
        "GPU NVLink": [(f"/{gpu}", "slow slow broken hanging absent hot"), (f"/{gpu}:nvlink", "slow slow broken")],
    }
    part, kinds = _one(parts[layer], random)
    return _planted(layer, host.name + part, kinds, random)


def _above(layer: str, topology: Topology, host: Host, random: np.random.Generator) -> Planted | None:
    """A fault of a switch or of the cables between two; what is broken there is routed around, and nobody sees it."""
    leaf = host.leaves[int(random.integers(len(host.leaves)))]
    if layer == "leaf":
        return _planted(layer, leaf, "slow slow slow broken", random)
    if network_problem(topology) is not None:
        return None
    if layer == "uplink":
        upper = [link.b for link in topology.links() if link.a == leaf]
        if not upper:
            return None
        up = _one(upper, random)
        return _planted(
            layer, _one([f"{leaf}--{up}", f"{leaf}--{up}", f"{leaf}->{up}", f"{up}->{leaf}"], random), "slow", random
        )
    names = [switch.name for switch in topology.switches.values() if switch.tier == layer]
    cables = [f"{link.a}--{link.b}" for link in topology.links() if link.b in names and layer == "core"]
    return _planted(layer, _one(names + cables, random), "slow", random) if names else None


def _planted(layer: str, component: str, kinds: str, random: np.random.Generator) -> Planted:
    kind = _one(kinds.split(), random)
    left = f"={random.uniform(*LEFT):.3f}" if kind in PARTIAL else ""
    return Planted(layer, f"{component}:{kind}{left}", frozenset(_names(layer, component, kind)))


def _names(layer: str, component: str, kind: str) -> Iterator[str]:
    """What a verdict may call it."""
    yield component
    if "->" in component and "/" not in component:
        yield "--".join(component.split("->"))
        yield "--".join(reversed(component.split("->")))
    more = {"GPU NVLink": ":pcie", "path PCIe": ":uplink"}.get(layer, "")
    if kind in ("hot", "broken") and layer == "host RNIC":
        more = ":port"  # of a hot RNIC the link errs, of a broken one it is down: tools tell of its port
    if more:  # the link of a GPU or of a PCIe switch
        yield component + more


T = TypeVar("T")


def _one(of: Sequence[T], random: np.random.Generator) -> T:
    return of[int(random.integers(len(of)))]


def cases(topology: Topology, random: np.random.Generator, *, several: bool) -> Iterator[list[Planted]]:
    """What is planted in each run: nothing; one fault of each layer; with *several* also two and three at once."""
    yield []
    layers = [layer for layer in LAYERS if drawn(layer, topology, random, without=frozenset()) is not None]
    for layer in layers:
        yield _together([layer], topology, random)
    for count in (2, 3) if several else ():
        yield _together([_one(layers, random) for _ in range(count)], topology, random)


def _together(layers: list[str], topology: Topology, random: np.random.Generator) -> list[Planted]:
    found: list[Planted] = []
    for layer in layers:
        without = frozenset(fault.component.partition("/")[0] for fault in found)
        fault = drawn(layer, topology, random, without=without)
        if fault is not None and fault.component not in {one.component for one in found}:
            found.append(fault)
    return found


@dataclass
class Row:
    """What became of all that was planted in one shape."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: int = 0
    runs_with_healthy: int = 0
    clean: int = 0
    clean_with_healthy: int = 0

    def add(self, faults: Sequence[Planted], score: Scored) -> None:
        """One run."""
        self.cells.update((fault.layer, found) for fault, found in zip(faults, score.found, strict=True))
        self.runs += bool(faults)
        self.runs_with_healthy += bool(faults and score.healthy)
        self.clean += not faults
        self.clean_with_healthy += bool(score.healthy and not faults)

    def __add__(self, other: Row) -> Row:
        """Both together."""
        return Row(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Row)))


def runs(
    names: Sequence[str], seeds: range, noise: str, *, several: bool
) -> Iterator[tuple[str, int, list[Planted], Scored]]:
    """Every case of these shapes: shape, seed, what was planted, the score."""
    for name in names:
        shape = SHAPES[name]
        with TemporaryDirectory() as text:
            folder = Path(text)
            path = inventory(shape, folder, noise)
            topology = load_inventory(path).topology
            scenario = folder / "shapes.scenario.yaml"
            scenario.write_text(SCENARIO.format(inventory=path.name, paths=shape.paths), encoding="utf-8")
            for seed in seeds:
                random = np.random.default_rng((seed, list(SHAPES).index(name)))
                for number, faults in enumerate(cases(topology, random, several=several)):
                    play = (seed * 100 + list(SHAPES).index(name)) * 100 + number  # other noise for each
                    judged, _ = played(scenario, path, faults, seed=play, results=folder / "results")
                    shutil.rmtree(folder / "results")
                    yield name, seed, faults, scored(judged.verdict, faults, topology)


def lines(rows: dict[str, Row]) -> Iterator[str]:
    """The table; a cell counts right/offered/unsure/wrong/silent."""
    yield f"{'/'.join(FOUND)}; at the end: runs that FAIL a healthy part, with and without something bad"
    yield f"{'':<18}" + "".join(f"{layer:>12}" for layer in LAYERS) + f"{'healthy':>10}{'clean':>8}"
    total = sum(rows.values(), Row())
    for name, row in {**rows, "all": total}.items():
        cells = ["/".join(str(row.cells[layer, found]) for found in FOUND) for layer in LAYERS]
        text = "".join(f"{'' if cell == '0/0/0/0/0' else cell:>12}" for cell in cells)
        healthy, clean = f"{row.runs_with_healthy}/{row.runs}", f"{row.clean_with_healthy}/{row.clean}"
        yield f"{name:<18}{text}{healthy:>10}{clean:>8}"
    found = Counter[str]()
    for (_, what), count in total.cells.items():
        found[what] += count
    every = found.total()
    right, good = found[RIGHT], found[RIGHT] + found[OFFERED]
    if every:
        yield f"right {right} of {every} ({right / every:.1%}), or offered {good} ({good / every:.1%}; goal 95 %)"


def main() -> None:
    """Play, print what went wrong and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101:104", help="FIRST:LAST, the last one left out")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--noise", choices=NOISES[::-1], default="real")
    parser.add_argument("--several", action="store_true")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    first, last = (int(seed) for seed in asked.seeds.split(":"))
    rows: dict[str, Row] = {}
    played_: list[tuple[str, int, list[Planted], Scored]] = []
    began = time.process_time()
    with suppress(KeyboardInterrupt, Interrupted):  # the table of what was played until then
        for name, seed, faults, score in runs(
            asked.shapes.split(","), range(first, last), asked.noise, several=asked.several
        ):
            rows.setdefault(name, Row()).add(faults, score)
            played_.append((name, seed, faults, score))
            said = ", ".join(f"{fault.text} {found}" for fault, found in zip(faults, score.found, strict=True))
            more = f"; healthy: {', '.join(score.healthy[:4])} ({len(score.healthy)})" if score.healthy else ""
            print(f"{name}, seed {seed}: {said or 'clean'}{more}", flush=True)
    print("\n".join(lines(rows)))
    print(f"{(time.process_time() - began) / sum(row.runs + row.clean for row in rows.values()):.1f} s CPU a run")
    if asked.save:
        save(asked.save, played_)


if __name__ == "__main__":
    main()
