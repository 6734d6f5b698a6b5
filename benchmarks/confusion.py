"""
Which part a whole run names, beside the part that is bad: the confusion table of `fabric run scenarios/localise.yaml`.

    python benchmarks/confusion.py [--seeds 200] [--first 0] [--faults 1] [--one-way] [--noise real|clean]

128 simulated hosts, 1,024 RNICs, 64 leaves, 16 spines, static routes. Each seed draws faults: an RNIC, a cable, a GPU,
a PCIe switch, a leaf, an uplink or a spine that is 3 to 50 % slow; with ``--one-way`` always an uplink, in one
direction. Scenario, planner, engine, text of tools, parsers, judge and decoder are the product; only the wire is
missing. Goals with clean noise: every part named, no healthy part blamed, no pair of hosts blamed.
"""

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.scoring import Planted, named, played
from fabric.errors import Interrupted
from fabric.model.inventory import NOISES
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect, Verdict

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios" / "localise.yaml"
TEMPLATE = ROOT / "inventory" / "pod-64.yaml"
UNITS, HOSTS_A_UNIT, RAILS, SPINES = 8, 16, 8, 16
KINDS = ("rnic", "cable", "gpu", "pcie", "leaf", "uplink", "spine")
LOSS = (0.03, 0.50)
MISSED, AMBIGUOUS, UNSURE = "not named", "one of several", "not localised"


@dataclass
class Table:
    """What was named for what was bad."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, seed: int, faults: list[Planted], verdict: Verdict) -> str:
        """One run; returns it in a few words."""
        said = []
        for fault in faults:
            found = _named_for(fault, verdict)
            self.cells[fault.layer, found] += 1
            said.append(f"{fault.text} -> {found}")
            if found in (MISSED, UNSURE):
                self.missed.append(f"seed {seed}: {fault.text}")
        right = frozenset[str]().union(*(fault.names for fault in faults))
        for suspect in (one for one in verdict.suspects if one.outcome is Outcome.FAIL):
            # Groups are below a limit as a whole, as with real noise those are that stand elsewhere.
            if suspect.kind != "group" and not right & named(suspect):
                self.wrong.append(f"seed {seed}: {suspect.component} ({suspect.confidence:.0%}); bad: {faults[0].text}")
            if suspect.kind in ("pair", "path") and len(suspect.hosts) > 1:
                self.pairs.append(f"seed {seed}: {suspect.component}")
        return "; ".join(said)


def _named_for(fault: Planted, verdict: Verdict) -> str:
    for suspect in verdict.suspects:
        if suspect.component in fault.names and not suspect.ambiguous_with:
            return fault.layer
    for suspect in verdict.suspects:
        if fault.names & named(suspect):
            return AMBIGUOUS
    if verdict.suspects:
        return _kind(verdict.suspects[0])
    return MISSED if verdict.outcome.value in ("pass", "marginal") else UNSURE


def _kind(suspect: Suspect) -> str:
    known = {"link": "uplink" if "--" in suspect.component else "cable", "pcie_switch": "pcie", "gpu_pcie": "gpu"}
    return known.get(suspect.kind, suspect.kind)


def drawn(seed: int, count: int) -> list[Planted]:
    """The faults of a seed; kinds take turns, so that each is drawn equally often."""
    random = np.random.default_rng(seed)
    return [_one(KINDS[(seed + number) % len(KINDS)], random) for number in range(count)]


def drawn_one_way(seed: int, count: int) -> list[Planted]:
    """Uplinks that are slow in one direction; even seeds begin with one from the leaf to the spine."""
    random = np.random.default_rng(seed)
    faults = [_one("uplink", random) for _ in range(count)]
    return [_in_one_direction(fault, up=(seed + number) % 2 == 0) for number, fault in enumerate(faults)]


def _in_one_direction(fault: Planted, *, up: bool) -> Planted:
    leaf, spine = fault.component.split("--")
    component = f"{leaf}->{spine}" if up else f"{spine}->{leaf}"
    return replace(fault, text=f"{component}{fault.text.removeprefix(fault.component)}")


def _one(kind: str, random: np.random.Generator) -> Planted:
    host = f"gpu{int(random.integers(UNITS * HOSTS_A_UNIT)) + 1:03d}"
    unit, rail, spine = (int(random.integers(most)) for most in (UNITS, RAILS, SPINES))
    loss = round(float(random.uniform(*LOSS)), 3)
    rnic, leaf, top = f"{host}/mlx5_{rail}", f"su{unit}-leaf{rail}", f"spine{spine:02d}"
    component, names = {
        "rnic": (rnic, {rnic}),
        "cable": (f"{rnic}:port", {f"{rnic}:port"}),
        "gpu": (f"{host}/gpu{rail}", {f"{host}/gpu{rail}", f"{host}/gpu{rail}:pcie"}),
        "pcie": (f"{host}/pcie{rail // 2}", {f"{host}/pcie{rail // 2}", f"{host}/pcie{rail // 2}:uplink"}),
        "leaf": (leaf, {leaf}),
        "uplink": (f"{leaf}--{top}", {f"{leaf}--{top}"}),
        "spine": (top, {top}),
    }[kind]
    return Planted(kind, f"{component}:slow={1 - loss:.3f}", frozenset(names))


def inventory(folder: Path, noise: str) -> Path:
    """The pod of 64 hosts, doubled."""
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("gpu[001-064]", "gpu[001-128]").replace("su[0-3]-leaf", "su[0-7]-leaf")
    text = text.replace("mock: {noise_cv: 0.003}", f"mock: {{noise: {noise}}}")
    shutil.copytree(TEMPLATE.parent / "baselines", folder / "baselines")
    path = folder / "pod-128.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def lines(table: Table) -> Iterator[str]:
    """The table, then what went wrong."""
    columns = [*KINDS, AMBIGUOUS, UNSURE, MISSED]
    others = sorted({named for _, named in table.cells} - set(columns))
    yield f"{'bad':>8} | " + " ".join(f"{name:>14}" for name in (*columns, *others))
    for kind in KINDS:
        counts = (table.cells[kind, name] for name in (*columns, *others))
        yield f"{kind:>8} | " + " ".join(f"{count or '.':>14}" for count in counts)
    total = sum(table.cells.values())
    right = sum(table.cells[kind, kind] for kind in KINDS)
    yield f"named right: {right} of {total} ({right / total:.1%})"
    for what, found in (
        ("healthy parts blamed", table.wrong),
        ("pairs of hosts blamed", table.pairs),
        ("not named", table.missed),
    ):
        yield f"{what}: {len(found)}"
        yield from (f"  {text}" for text in found[:20])


def main() -> int:
    """Run, print, and end with 1 when a healthy part or a pair of hosts was blamed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--faults", type=int, default=1)
    parser.add_argument("--one-way", action="store_true")
    parser.add_argument("--noise", choices=NOISES[::-1], default="real")
    asked = parser.parse_args()
    draw = drawn_one_way if asked.one_way else drawn
    table = Table()
    with TemporaryDirectory() as name:
        folder = Path(name)
        pod = inventory(folder, asked.noise)
        with suppress(KeyboardInterrupt, Interrupted):  # the table of what was run until then
            for seed in range(asked.first, asked.first + asked.seeds):
                faults, began = draw(seed, asked.faults), time.perf_counter()
                judged, _ = played(SCENARIO, pod, faults, seed=seed, results=folder / "results")
                shutil.rmtree(folder / "results")
                said = table.add(seed, faults, judged.verdict)
                took = f"{time.perf_counter() - began:.1f} s, {judged.elapsed_s / 60:.1f} min on hardware"
                print(f"seed {seed}: {said}  ({took}; healthy parts blamed until now: {len(table.wrong)})", flush=True)
    if not table.cells:
        return 1
    print("\n".join(lines(table)))
    return 1 if table.wrong or table.pairs else 0


if __name__ == "__main__":
    sys.exit(main())
