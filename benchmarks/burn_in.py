"""
Two days of burn-in on the mock: how long it takes to simulate them, and who is named of those with a planted fault.

    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]]                     default: 64 48 96
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --also 12           the same for 12 h first: what grows how
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --seeds 5           how often each kind of fault is named
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --clean --seeds 100

Every round each host runs an all-to-all over its GPUs, an all-reduce with each neighbour under its ToR, and pair tests
with partners that change; counters and temperatures are sampled beside them. A fault of each kind comes at a random
hour. With --clean nothing is wrong, and it prints how many fleets pass. Everything goes the way of ``fabric run``.
There are two units of leaves at least; the rack that becomes slow is the last eight hosts.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent))
from self_check import inventory as hall

from fabric.app import prepare, run
from fabric.model.inventory import Fault, Inventory, TimedFault
from fabric.model.judged_run import JudgedRun
from fabric.model.outcome import Outcome
from fabric.wiring import BACKENDS

HOUR_S = 3600.0
A2A_PER_HOUR, RING_PER_HOUR = 6580, 5270  # calls of 16 GiB that fill an hour together, on the mock
MOST_CALLS = 10_000  # that a scenario may ask for: longer rounds stay as long as these
PAIRS_H = 0.05  # what the pair tests of a round take
UNIT = 32  # hosts of a unit of the hall
LONG_S = 1e9  # what has come stays
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
      - all_to_all: {{sizes: [16G], halves: false, iterations: {a2a}}}
      - tor_all_reduce: {{sizes: [16G], iterations: {ring}}}
      - pairwise: {{rounds: 4, duration: 10s}}
"""


class Silent:
    """Watches nothing."""

    def __getattr__(self, name: str) -> object:
        """Whatever it is told."""
        return lambda *_: None


@dataclass(frozen=True)
class Planted:
    """What is wrong, which names of a verdict would be right, which words say the kind, whether it may be named."""

    what: str
    components: tuple[str, ...]
    words: tuple[str, ...]
    faults: tuple[TimedFault, ...] = ()
    standing: tuple[Fault, ...] = ()
    must: bool = True


def inventory_of(hosts: int, folder: Path) -> Path:
    """The hall cut to *hosts*, with two units of leaves where it would have one."""
    path = hall(hosts, folder)
    if hosts < 2 * UNIT:
        path.write_text(path.read_text().replace(f"hosts_per_unit: {UNIT}", f"hosts_per_unit: {hosts // 2}"))
    return path


def scenario(folder: Path, inventory: Path, hours: float, rounds: int) -> Path:
    """A soak of so many rounds; *for* is by planned durations, which the probe files know better than we do."""
    each_h = hours / rounds
    text = SCENARIO.format(
        inventory=inventory,
        hours=720,
        every="10m",
        planned_s=10,
        a2a=min(max(20, int(A2A_PER_HOUR * (each_h - PAIRS_H))), MOST_CALLS),
        ring=min(max(20, int(RING_PER_HOUR * (each_h - PAIRS_H))), MOST_CALLS),
    )
    path = folder / "burn-in.yaml"
    path.write_text(text)
    once_s = prepare(path, inventory_path=None, hosts=None, faults=()).plan.duration_s
    path.write_text(text.replace("for: 10s", f"for: {int(once_s * rounds) + rounds}s"))
    return path


def planted(inventory: Inventory, hours: float, random: Random) -> list[Planted]:
    """One fault of each kind on hosts of their own, each from an hour of its own."""
    names = list(inventory.topology.hosts)
    rack = names[-8:]
    free = [name for name in names if name not in rack]
    hosts = random.sample(free, 8)
    ends_s = hours * HOUR_S

    def from_(component: str, kind: str, factor: float = 1.0) -> TimedFault:
        return TimedFault(random.uniform(0.05, 0.4) * ends_s, LONG_S, Fault(component, kind, factor))

    parts = [f"{host}/mlx5_{random.randrange(8)}" for host in hosts]
    flaps = tuple(TimedFault(random.uniform(0.1, 0.9) * ends_s, 20.0, Fault(parts[3], "broken")) for _ in range(6))
    rack_s = random.uniform(0.2, 0.5) * ends_s
    leaf = inventory.topology.hosts[hosts[6]].leaves[0]
    # With OpenSM's routes uplinks beyond the hosts of a unit carry nothing: nobody could name them.
    ups = [link for link in inventory.topology.links() if link.a == leaf][: min(UNIT, len(names) // 2)]
    up = random.choice(ups)
    half = (Fault(f"{up.a}--{up.b}", "slow", 0.5),)
    racks = dict.fromkeys(f"rack {inventory.topology.hosts[name].rack}" for name in rack)
    down = ("down", "failed in")
    errors = ("symbol errors within",)
    worn, clean = from_(parts[4], "symbol_errors", 1e-13), from_(parts[5], "symbol_errors", 1e-17)
    return [
        Planted("fades 30 % a day", (parts[0],), ("by and by",), (from_(parts[0], "fading", 0.7),)),
        Planted("dips to half, 1 in 50", (parts[1],), ("dips to",), (from_(f"{parts[1]}:port", "dipping", 0.5),)),
        Planted("loses 20 % when warm", (parts[2],), ("warms",), (from_(parts[2], "heat_sick", 0.8),)),
        Planted("flapping cable", (parts[3],), down, flaps),
        Planted("symbol errors at 1e-13", (parts[4],), errors, (worn,)),
        Planted("symbol errors at 1e-17", (parts[5],), errors, (clean,), must=False),
        Planted("half-dead uplink", (half[0].component, f"{leaf}:uplinks"), ("uplink",), standing=half),
        Planted("lemon that recovers", (hosts[7],), down, standing=(Fault(hosts[7], "lemon"),)),
        Planted(
            "uniformly slow rack",
            (*rack, *racks),
            ("at once", "slower than"),
            tuple(TimedFault(rack_s, LONG_S, Fault(host, "slow", 0.85)) for host in rack),
        ),
    ]


def burn(folder: Path, path: Path, faults: list[Planted], seed: int) -> JudgedRun:
    """The run, judged."""
    asked = prepare(path, inventory_path=None, hosts=None, faults=())
    mock = replace(
        asked.inventory.mock,
        faults=tuple(fault for one in faults for fault in one.standing),
        timed_faults=tuple(fault for one in faults for fault in one.faults),
    )
    asked = replace(asked, inventory=replace(asked.inventory, mock=mock))
    return run(
        asked,
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=folder / f"results-{seed}",
        seed=seed,
        observer=Silent(),  # type: ignore[arg-type]
        reports=False,
    )


def is_of(component: str, names: tuple[str, ...]) -> bool:
    """Whether it is one of these, or a part or the cable of one."""
    return any(component == name or component.startswith((f"{name}:", f"{name}/")) for name in names)


def said_of(judged: JudgedRun, one: Planted) -> list[str]:
    """What the verdict says of what was planted, or of its parts and cables."""
    lines = []
    for suspect in judged.verdict.suspects:
        if any(is_of(name, one.components) for name in (suspect.component, *suspect.ambiguous_with)):
            lines.append(f"{suspect.component} {suspect.outcome.name}: {suspect.evidence[-1]}")
    return lines


def score(judged: JudgedRun, faults: list[Planted]) -> dict[str, tuple[str, list[str]]]:
    """By what was planted: how it was named, and what was said; ``others``: who was named without a reason."""
    found = {}
    for one in faults:
        lines = said_of(judged, one)
        as_it_is = any(word in line for line in lines for word in one.words)
        named = "named" if as_it_is else "named as something else" if lines else "MISSED"
        if not one.must:
            named = "WRONGLY NAMED" if lines else "not named, rightly"
        found[one.what] = named, lines
    right = tuple(name for one in faults for name in one.components)
    wrong = [
        suspect.component
        for suspect in judged.verdict.suspects
        if not any(is_of(name, right) for name in (suspect.component, *suspect.ambiguous_with))
    ]
    found["others"] = f"{len(wrong)} named without a planted fault of their own", wrong
    return found


def show(found: dict[str, tuple[str, list[str]]], faults: list[Planted]) -> None:
    """Who was named as what, and who was named without a reason."""
    for one in faults:
        named, lines = found[one.what]
        print(f"  {one.what:24} {'+'.join(one.components)[:28]:28} {named}")
        for line in lines[:2]:
            print(f"      {line[:150]}")
    print(f"  {found['others'][0]} {found['others'][1][:12]}")


def measured(folder: Path, asked: argparse.Namespace, hours: float, seed: int) -> tuple[JudgedRun, list[Planted]]:
    """One run of so many hours, with what it took."""
    here = folder / f"{hours:g}h"
    here.mkdir(exist_ok=True)
    path = scenario(here, inventory_of(asked.hosts, here), hours, max(8, round(asked.rounds * hours / asked.hours)))
    inventory = prepare(path, inventory_path=None, hosts=None, faults=()).inventory
    faults = [] if asked.clean else planted(inventory, hours, Random(seed))
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    judged = burn(here, path, faults, seed)
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
    return judged, faults


def main() -> None:
    """Run it, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int, nargs="?", default=64)
    parser.add_argument("hours", type=float, nargs="?", default=48.0)
    parser.add_argument("rounds", type=int, nargs="?", default=96)
    parser.add_argument("--also", type=float, help="so many hours first, for comparison")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    clean, tally = 0, Counter[tuple[str, str]]()
    for seed in range(asked.first, asked.first + asked.seeds):
        for hours in [asked.also] * bool(asked.also) + [asked.hours]:
            with tempfile.TemporaryDirectory() as name:
                judged, faults = measured(Path(name), asked, hours, seed)
        if asked.clean:
            clean += judged.verdict.outcome is Outcome.PASS and not judged.verdict.suspects
            for suspect in judged.verdict.suspects[:3]:
                print(f"  seed {seed}: {suspect.component}: {suspect.evidence[-1]}")
            continue
        found = score(judged, faults)
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
