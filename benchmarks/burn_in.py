"""
Two days of burn-in on the mock: how long it takes to simulate them, and who is named of those with a planted fault.

    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]]                     default: 64 48 96
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --also 12           the same for 12 h first: what grows how
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --seeds 5           how often each kind of fault is named
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --clean --seeds 100
    python benchmarks/burn_in.py 2048 48 12 --pairs 8                         enough pair tests for rare dips

Every round each host runs an all-to-all over its GPUs, an all-reduce with each neighbour under its ToR, and pair tests
with partners that change; counters and temperatures are sampled beside them. A fault of each kind comes at a random
hour. With --clean nothing is wrong, and it prints how many fleets pass. Everything goes the way of ``fabric run``.
There are two units of leaves at least; the rack that becomes slow is the last eight hosts.

2,048 hosts are for 12 rounds of four hours with eight pair tests each (`2048 48 12 --pairs 8`). An RNIC then has
some 100 pair tests, a host 12 all-to-alls and 24 all-reduces. A part that dips once in 50 probes dips at all in nine of
ten fleets. Three dips name it; one dip that nothing explains is followed by further
tests of its two ends. What never dipped where it could be seen has no follow-up: that is counted ("too few dips").
"measured again, and not named" is the word of the verdict. Else it reads MISSED or "named as something else".

Long rounds call collectives of 64 GiB, because a scenario may ask for 10,000 calls at most. The mock has memory for
that; nccl-tests on GPUs of 80 GB would cut the size to a third of theirs.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from burn_in_faults import HOUR_S, UNIT, Planted, planted, score
from self_check import inventory as hall

from benchmarks.scoring import Silent
from fabric.app.prepare import Asked, Given, prepare
from fabric.app.run import run
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from fabric.wiring import BACKENDS

A2A_PER_HOUR, RING_PER_HOUR = 9540, 7640  # calls of 16 GiB that fill an hour together, on the mock
SIZES_GIB = (16, 32, 64)  # the least with which a round needs no more calls than
MOST_CALLS = 10_000  # that a scenario may ask for
SAMPLED = {1024: "10m", 1 << 20: "30m"}  # how often, up to so many hosts: half of a large run would be samples
SCENARIO = """\
name: burn-in
inventory: {inventory}
hosts: all
for: {hours}h
sample: {{every: {every}}}
phases:
  - name: soak
    for: {planned_s}s
    probes:
      - all_to_all: {{sizes: [{size}G], halves: false, iterations: {a2a}}}
      - tor_all_reduce: {{sizes: [{size}G], iterations: {ring}}}
      - pairwise: {{rounds: {pairs}, duration: 10s}}
"""


def inventory_of(hosts: int, folder: Path) -> Path:
    """The hall cut to *hosts*, with two units of leaves where it would have one."""
    path = hall(hosts, folder)
    if hosts < 2 * UNIT:
        path.write_text(path.read_text().replace(f"hosts_per_unit: {UNIT}", f"hosts_per_unit: {hosts // 2}"))
    return path


def scenario(folder: Path, inventory: Path, asked: argparse.Namespace, hours: float, rounds: int) -> Path:
    """A soak of so many hours, in about as many rounds: the clock ends it, and rounds last about as long as planned."""
    path = folder / "burn-in.yaml"

    def once_s(size_gib: int, share_h: float) -> float:
        calls = [
            min(max(20, int(per_hour * 16 / size_gib * share_h)), MOST_CALLS)
            for per_hour in (A2A_PER_HOUR, RING_PER_HOUR)
        ]
        text = SCENARIO.format(
            inventory=inventory,
            hours=720,
            every=next(every for most, every in SAMPLED.items() if asked.hosts <= most),
            planned_s=10,
            size=size_gib,
            a2a=calls[0],
            ring=calls[1],
            pairs=asked.pairs,
        )
        path.write_text(text)
        return asked_of(path).plan.duration_s

    pairs_h = once_s(SIZES_GIB[0], 0.0) / HOUR_S
    share_h = hours / rounds - pairs_h
    size = next((size for size in SIZES_GIB if A2A_PER_HOUR * 16 / size * share_h <= MOST_CALLS), SIZES_GIB[-1])
    half_a_round_s = once_s(size, share_h) / 2
    path.write_text(path.read_text().replace("for: 10s", f"for: {int(hours * HOUR_S + half_a_round_s)}s"))
    return path


def asked_of(path: Path) -> Asked:
    """The scenario, read and planned."""
    return prepare(Given(path))


def burn(folder: Path, asked: Asked, faults: list[Planted], seed: int) -> JudgedRun:
    """The run, judged."""
    mock = replace(
        asked.inventory.mock,
        faults=tuple(fault for one in faults for fault in one.standing),
        timed_faults=tuple(fault for one in faults for fault in one.faults),
    )
    asked = replace(asked, inventory=replace(asked.inventory, mock=mock))
    return run(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, seed),
        results=folder / f"results-{seed}",
        seed=seed,
        observer=Silent(),  # type: ignore[arg-type]
        reports=False,
    ).judged


def show(found: dict[str, tuple[str, list[str]]], faults: list[Planted]) -> None:
    """Who was named as what, and who was named without a reason."""
    for one in faults:
        named, lines = found[one.what]
        print(f"  {one.what:24} {'+'.join(one.components)[:28]:28} {named}")
        for line in lines[:2]:
            print(f"      {line[:150]}")
    print(f"  {found['others'][0]} {found['others'][1][:12]}")


def measured(
    folder: Path, asked: argparse.Namespace, hours: float, seed: int
) -> tuple[JudgedRun, list[Planted], Inventory]:
    """One run of so many hours, with what it took."""
    here = folder / f"{hours:g}h"
    here.mkdir(exist_ok=True)
    rounds = max(8, round(asked.rounds * hours / asked.hours))
    path = scenario(here, inventory_of(asked.hosts, here), asked, hours, rounds)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    plan = asked_of(path)
    faults = [] if asked.clean else planted(plan.inventory, hours, Random(seed))
    judged = burn(here, plan, faults, seed)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    size = sum(file.stat().st_size for file in Path(judged.path).rglob("*") if file.is_file())
    simulated_h = judged.elapsed_s / HOUR_S
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    host_hours = asked.hosts * simulated_h
    print(
        f"{asked.hosts} hosts, {simulated_h:.1f} h, seed {seed}: {wall_s:.0f} s wall, {cpu_s:.0f} s CPU "
        f"({1000 * cpu_s / host_hours:.0f} ms a host and hour), peak memory {rss_mib:.0f} MiB, "
        f"run directory {size / 2**20:.1f} MiB ({size / 1024 / host_hours:.2f} KiB a host and hour); "
        f"{judged.verdict.outcome.name}",
        flush=True,
    )
    return judged, faults, plan.inventory


def main() -> None:
    """Run it, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int, nargs="?", default=64)
    parser.add_argument("hours", type=float, nargs="?", default=48.0)
    parser.add_argument("rounds", type=int, nargs="?", default=96)
    parser.add_argument("--also", type=float, help="so many hours first, for comparison")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--pairs", type=int, default=4, help="pair tests of each RNIC in a round")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    clean, tally = 0, Counter[tuple[str, str]]()
    for seed in range(asked.first, asked.first + asked.seeds):
        for hours in [asked.also] * bool(asked.also) + [asked.hours]:
            with tempfile.TemporaryDirectory() as name:
                judged, faults, inventory = measured(Path(name), asked, hours, seed)
                found = score(judged, faults, inventory)
        if asked.clean:
            clean += judged.verdict.outcome is Outcome.PASS and not judged.verdict.suspects
            for suspect in judged.verdict.suspects[:3]:
                print(f"  seed {seed}: {suspect.component}: {suspect.evidence[-1]}")
            continue
        tally.update((what, named) for what, (named, _) in found.items() if what != "others")
        tally["others", "named without a fault of their own"] += len(found["others"][1])
        show(found, faults)
    if asked.clean:
        print(f"{clean} of {asked.seeds} clean fleets pass")
    elif asked.seeds > 1:
        print(f"of {asked.seeds} seeds:")
        for (what, named), count in tally.items():
            print(f"  {what:24} {count:3} {named}")


if __name__ == "__main__":
    main()
