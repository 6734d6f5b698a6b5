"""
Two days of burn-in on the mock: how long it takes to simulate them, and who is named of those with a planted fault.

    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]]        default: 64 48 96
    python benchmarks/burn_in.py [HOSTS [HOURS [ROUNDS]]] --clean --seeds 100

Every round each host runs an all-to-all over its GPUs, an all-reduce with each neighbour under its ToR, and pair tests
with partners that change; counters and temperatures are sampled beside them. A fault of each kind comes at a random
hour. With --clean nothing is wrong, and it prints how many fleets pass. Everything goes the way of ``fabric run``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
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
A2A_PER_HOUR, RING_PER_HOUR = 9500, 7600  # calls of 16 GiB that fill an hour together, on the mock
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
    """What is wrong, which names of a verdict would be right, and whether it may be named at all."""

    what: str
    components: tuple[str, ...]
    faults: tuple[TimedFault, ...] = ()
    standing: tuple[Fault, ...] = ()
    must: bool = True


def scenario(folder: Path, inventory: Path, hours: float, rounds: int) -> Path:
    """A soak of so many rounds; *for* is by planned durations, which the probe files know better than we do."""
    each_h = hours / rounds
    text = SCENARIO.format(
        inventory=inventory,
        hours=720,
        every="10m",
        planned_s=10,
        a2a=max(20, int(A2A_PER_HOUR * each_h)),
        ring=max(20, int(RING_PER_HOUR * each_h)),
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
        at_s = random.uniform(0.05, 0.4) * ends_s
        return TimedFault(at_s, ends_s, Fault(component, kind, factor))

    parts = [f"{host}/mlx5_{random.randrange(8)}" for host in hosts]
    flaps = tuple(TimedFault(random.uniform(0.1, 0.9) * ends_s, 20.0, Fault(parts[3], "broken")) for _ in range(6))
    rack_s = random.uniform(0.2, 0.5) * ends_s
    leaf = inventory.topology.hosts[hosts[6]].leaves[0]
    up = next(link for link in inventory.topology.links() if link.a == leaf)
    half = (Fault(f"{up.a}--{up.b}", "slow", 0.5),)
    return [
        Planted("fades 30 % a day", (parts[0],), (from_(parts[0], "fading", 0.7),)),
        Planted("dips to half, 1 in 50", (parts[1],), (from_(f"{parts[1]}:port", "dipping", 0.5),)),
        Planted("loses 20 % when warm", (parts[2],), (from_(parts[2], "heat_sick", 0.8),)),
        Planted("flapping cable", (parts[3],), flaps),
        Planted("symbol errors at 1e-13", (parts[4],), (from_(parts[4], "symbol_errors", 1e-13),)),
        Planted("symbol errors at 1e-17", (parts[5],), (from_(parts[5], "symbol_errors", 1e-17),), must=False),
        Planted("half-dead uplink", tuple(fault.component for fault in half), standing=half),
        Planted("lemon that recovers", (hosts[7],), standing=(Fault(hosts[7], "lemon"),)),
        Planted(
            "uniformly slow rack",
            (*rack, *dict.fromkeys(f"rack {inventory.topology.hosts[name].rack}" for name in rack)),
            tuple(TimedFault(rack_s, ends_s, Fault(host, "slow", 0.85)) for host in rack),
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


def said_of(judged: JudgedRun, components: tuple[str, ...]) -> list[str]:
    """What the verdict says of these components, or of their parts and cables."""
    lines = []
    for suspect in judged.verdict.suspects:
        if is_of(suspect.component, components):
            lines.append(f"{suspect.component} {suspect.outcome.name}: {suspect.evidence[-1]}")
    return lines


def show(judged: JudgedRun, faults: list[Planted]) -> None:
    """Who was named as what, and who was named without a reason."""
    right = {name for one in faults for name in one.components}
    for one in faults:
        lines = said_of(judged, one.components)
        good, bad = ("named", "MISSED") if one.must else ("WRONGLY NAMED", "not named, rightly")
        verdict = good if lines else bad
        print(f"  {one.what:24} {'+'.join(one.components)[:28]:28} {verdict}")
        for line in lines[:2]:
            print(f"      {line[:150]}")
    wrong = [suspect.component for suspect in judged.verdict.suspects if not is_of(suspect.component, tuple(right))]
    print(f"  named without a planted fault of their own: {len(wrong)} {wrong[:12]}")


def main() -> None:
    """Run it, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int, nargs="?", default=64)
    parser.add_argument("hours", type=float, nargs="?", default=48.0)
    parser.add_argument("rounds", type=int, nargs="?", default=96)
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = scenario(folder, hall(asked.hosts, folder), asked.hours, asked.rounds)
        inventory = prepare(path, inventory_path=None, hosts=None, faults=()).inventory
        clean = 0
        for seed in range(1, asked.seeds + 1):
            faults = [] if asked.clean else planted(inventory, asked.hours, Random(seed))
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            judged = burn(folder, path, faults, seed)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            clean += judged.verdict.outcome is Outcome.PASS and not judged.verdict.suspects
            if asked.clean and asked.seeds > 1:
                for suspect in judged.verdict.suspects[:3]:
                    print(f"  seed {seed}: {suspect.component}: {suspect.evidence[-1]}")
                continue
            size = sum(file.stat().st_size for file in Path(judged.path).rglob("*") if file.is_file())
            simulated_h = judged.elapsed_s / HOUR_S
            print(f"{asked.hosts} hosts, {simulated_h:.1f} h simulated in {wall_s:.0f} s wall, {cpu_s:.0f} s CPU")
            rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"  peak memory {rss_mib:.0f} MiB; run directory {size / 2**20:.1f} MiB, ", end="")
            print(f"{size / 1024 / asked.hosts / simulated_h:.2f} KiB a host and hour; {judged.verdict.outcome.name}")
            show(judged, faults)
        if asked.clean:
            print(f"{clean} of {asked.seeds} clean fleets pass")


if __name__ == "__main__":
    main()
