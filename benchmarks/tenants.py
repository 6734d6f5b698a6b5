"""
Slow because congested, or slow because bad? RoCE pair tests beside other tenants, seeded, on the simulated fabric.

    python benchmarks/tenants.py [--seeds 101:121] [--unread] [--blind] [--only healthy,bad,both] [--tell]

`inventory/roce-queues.yaml`, 12 of its hosts, four rounds of pairs; switches tell their ports by NVUE (not with
--unread), and RNICs are sampled for congestion (not with --blind). *healthy*: others send over some cables between
switches all the time or for a while, and no part is bad. *bad*: nobody does, and one cable is slow: that of a host
(both ways, or one) or one between switches. *both*. Printed is what became of each: accused healthy parts, and whether
the bad cable was found.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from fabric.app.prepare import Asked, Given, prepare
from fabric.app.run import run
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.verdict import Verdict
from fabric.report.progress import ConsoleProgress
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parents[1]
LEAVES, SPINES, HOSTS = 3, 8, "gpu[01-04,09-12,17-20]"
NVUE = ', address: "{name}.mgmt", management: nvue, user: cumulus'
SCENARIO = """\
name: tenants
description: pairs beside other tenants
inventory: roce.yaml
hosts: "{hosts}"
sample: {{{sample}links: 10s}}
phases:
  - name: inside
    probes: [{{loopback: {{size: 8M, duration: 5s}}}}]
  - name: pairs
    probes: [{{pairwise: {{rounds: 4, size: 8M, duration: 10s}}}}]
"""


@dataclass(frozen=True)
class Scene:
    """What is planted: tenants of the whole run, tenants of a time, and the bad part (empty: none)."""

    faults: tuple[Fault, ...]
    timed: tuple[TimedFault, ...]
    bad: str


def drawn(kind: str, seed: int) -> Scene:
    """The same seed has the same tenants with and without a bad part."""
    of_tenants, of_bad = (np.random.default_rng([seed, number]) for number in (1, 2))
    faults, timed = list[Fault](), list[TimedFault]()
    for _ in range(int(of_tenants.integers(2, 5))):  # jobs of others, each of which loads some cables of a leaf
        leaf = f"su{of_tenants.integers(LEAVES)}-leaf{of_tenants.integers(2)}"
        up, share = of_tenants.random() < 0.5, float(of_tenants.choice([0.4, 0.7, 1.0]))
        left, whole = float(of_tenants.choice([0.15, 0.25, 0.35])), of_tenants.random() < 0.5
        began_s, lasts_s = float(of_tenants.uniform(0, 60)), float(of_tenants.uniform(20, 80))
        for spine in of_tenants.permutation(SPINES)[: round(share * SPINES)].tolist():
            ends = leaf, f"spine{spine}"
            tenant = Fault("->".join(ends if up else ends[::-1]), "tenant", left)
            if whole:
                faults.append(tenant)
            else:
                timed.append(TimedFault(began_s, lasts_s, tenant))
    if kind == "bad":
        faults, timed = [], []
    host = int(of_bad.choice([1, 2, 3, 4, 9, 10, 11, 12, 17, 18, 19, 20]))
    uplink = f"su{of_bad.integers(LEAVES)}-leaf{of_bad.integers(2)}--spine{of_bad.integers(SPINES)}"
    names = [f"gpu{host:02d}/mlx5_{of_bad.integers(2)}:{way}" for way in ("port", "rx", "tx")]
    bad = str(of_bad.choice([*names, uplink, uplink])) if kind != "healthy" else ""
    if bad:
        faults.append(Fault(bad, "slow", float(of_bad.choice([0.3, 0.5, 0.7]))))
    return Scene(tuple(faults), tuple(timed), bad)


def played(scene: Scene, seed: int, folder: Path, *, unread: bool, blind: bool) -> Verdict:
    """The verdict of a run of it."""
    text = (ROOT / "inventory" / "roce-queues.yaml").read_text()
    if not unread:
        text = text.replace("line_rate_gbps: 400}}", f"line_rate_gbps: 400}}{NVUE}}}")
        text = text.replace("tier: spine}", f"tier: spine{NVUE}}}")
    if not (folder / "baselines").exists():
        (folder / "baselines").symlink_to(ROOT / "inventory" / "baselines")
    (folder / "roce.yaml").write_text(text)
    (folder / "tenants.yaml").write_text(SCENARIO.format(hosts=HOSTS, sample="" if blind else "congestion: 500ms, "))
    asked: Asked = prepare(Given(folder / "tenants.yaml"))
    mock = replace(asked.inventory.mock, faults=scene.faults, timed_faults=scene.timed)
    asked = replace(asked, inventory=replace(asked.inventory, mock=mock))
    quiet = ConsoleProgress(quiet=True)
    return run(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, seed),
        results=folder,
        seed=seed,
        observer=quiet,
        reports=False,
    ).judged.verdict


def names_of(bad: str) -> set[str]:
    """What a bad cable may be called: an RNIC and its cable look alike to pairs, the cables of a leaf with ECMP."""
    if "/" in bad:
        rnic = bad.partition(":")[0]
        return {rnic, f"{rnic}:port"}
    leaf, _, spine = bad.partition("--")
    return {bad, f"{leaf}:uplinks", f"{leaf}--{spine}", spine, leaf}


def became(scene: Scene, found: Verdict) -> Iterator[str]:
    """In words that are counted."""
    fails = [one for one in found.suspects if one.outcome is Outcome.FAIL]
    good = names_of(scene.bad) if scene.bad else set()
    wrong = [one for one in fails if good.isdisjoint((one.component, *one.ambiguous_with))]
    yield f"outcome {found.outcome.name}"
    if wrong:
        yield "accused a healthy part"
    elif found.outcome is Outcome.FAIL and not fails:
        yield "FAIL without a suspect"
    if scene.bad:
        named = [one for one in found.suspects if not good.isdisjoint((one.component, *one.ambiguous_with))]
        worst = "FAIL" if any(one.outcome is Outcome.FAIL for one in named) else "INCONCLUSIVE" if named else "no"
        yield f"bad part named: {worst}"


def main() -> int:
    """Print the counts; exit status 1 where a healthy part was accused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101:121")
    parser.add_argument("--only", default="healthy,bad,both")
    parser.add_argument("--unread", action="store_true")
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--tell", action="store_true")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split(":"))
    accused = 0
    for kind in asked.only.split(","):
        counts = Counter[str]()
        for seed in range(first, last):
            scene = drawn(kind, seed)
            with TemporaryDirectory() as folder:
                found = played(scene, seed, Path(folder), unread=asked.unread, blind=asked.blind)
            said = list(became(scene, found))
            counts.update(said)
            if asked.tell:
                suspects = [(one.component, one.outcome.name, one.confidence) for one in found.suspects]
                print(kind, seed, scene.bad or "-", said, suspects, flush=True)
                for line in found.lines:
                    print("   ", line)
        print(f"{kind}: {last - first} runs: {dict(sorted(counts.items()))}", flush=True)
        accused += counts["accused a healthy part"]
    return int(accused > 0)


if __name__ == "__main__":
    sys.exit(main())
