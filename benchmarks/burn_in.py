"""
A day of burn-in of the 2,048-host hall on the mock: how long it takes to simulate it.

    python benchmarks/burn_in.py [HOSTS [HOURS]]        default: 2048 24

Every simulated hour each host runs an all-to-all over its GPUs and an all-reduce with each neighbour under its ToR, one
after the other and as long as the hour is, so that all day is traffic. Hosts fail by chance at the rate of Meta's
RSC-1, and a few are lemons. Once an hour every host is asked for its temperatures and the counters of its first port,
beside the probes. Everything goes the way of ``fabric run``: plan, engine, run directory on disk, verdict.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from self_check import inventory as hall

from fabric.app import prepare, run
from fabric.model.command import Command
from fabric.model.inventory import Fault, Inventory
from fabric.model.outcome import Outcome
from fabric.ports import Ended, Executor, Happening, Ticket
from fabric.wiring import BACKENDS

PER_HOST_DAY = 6.50e-3
LEMONS_IN_1000 = 12
WATCH = (
    ("nvidia-smi", "--query-gpu=temperature.gpu", "--format=csv,noheader,nounits"),
    ("perfquery", "-x"),
)
HOUR = """\
  - name: hour-{hour:02d}
    probes:
      - all_to_all: {{sizes: [16G], halves: false, iterations: 10000}}
      - tor_all_reduce: {{sizes: [16G], iterations: 8000}}
"""


class Watching:
    """The mock, with every host asked every hour for what a monitor asks; the answers go to nobody else."""

    def __init__(self, inner: Executor, hosts: Sequence[str]) -> None:
        self._inner, self._hosts = inner, tuple(hosts)
        self._own: set[Ticket] = set()
        self._next_s = 3600.0
        self.answers: Counter[str] = Counter()
        self.hottest_c = 0.0

    def __getattr__(self, name: str) -> object:
        """Everything else is the mock's."""
        return getattr(self._inner, name)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the mock, but no further than the next full hour."""
        if self._inner.now() >= self._next_s:
            self._next_s += 3600.0
            self._own.update(self._inner.start(Command(host, words, 60.0)) for host in self._hosts for words in WATCH)
        found = []
        for happening in self._inner.wait(min(until_s, self._next_s)):
            if happening.ticket not in self._own:
                found.append(happening)
                continue
            self._own.discard(happening.ticket)
            self._note(happening)
        return found

    def _note(self, happening: Happening) -> None:
        answered = isinstance(happening, Ended) and happening.result.exit_status == 0
        self.answers["answered" if answered else "not answered"] += 1
        if isinstance(happening, Ended) and answered and happening.result.command.argv[0] == "nvidia-smi":
            self.hottest_c = max(self.hottest_c, *(float(line) for line in happening.result.stdout.splitlines()))


class Silent:
    """Watches nothing."""

    def __getattr__(self, name: str) -> object:
        """Whatever it is told."""
        return lambda *_: None


def scenario(folder: Path, inventory: Path, hours: int) -> Path:
    """One phase an hour; the iterations fill it."""
    text = f"name: burn-in\ndescription: A day\ninventory: {inventory}\nhosts: all\nphases:\n"
    text += "".join(HOUR.format(hour=hour) for hour in range(hours))
    path = folder / "burn-in.yaml"
    path.write_text(text)
    return path


def troubled(inventory: Inventory) -> Inventory:
    """Failures by chance, and every so many-th host a lemon."""
    names = list(inventory.topology.hosts)
    lemons = tuple(Fault(name, "lemon") for name in names[:: 1000 // LEMONS_IN_1000])
    mock = replace(inventory.mock, faults=lemons, failures_per_host_day=PER_HOST_DAY, lemon_per_hour=1.0)
    return replace(inventory, mock=mock)


def main() -> None:
    """Run it, print what it took."""
    hosts, hours = (*map(int, sys.argv[1:]), *(2048, 24)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        asked = prepare(scenario(folder, hall(hosts, folder), hours), inventory_path=None, hosts=None, faults=())
        asked = replace(asked, inventory=troubled(asked.inventory))
        watching: list[Watching] = []

        def make(inventory: Inventory, seed: int) -> Executor:
            watching.append(Watching(BACKENDS["mock"](inventory, seed), tuple(inventory.topology.hosts)))
            return watching[0]  # type: ignore[return-value]

        judged = run(asked, backend="mock", make_executor=make, results=folder, seed=1, observer=Silent())  # type: ignore[arg-type]
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = Counter(probe.outcome for probe in judged.verdict.probes)
    print(f"hosts {hosts}, lemons {len(watching[0]._hosts[:: 1000 // LEMONS_IN_1000])}")
    print(f"simulated {judged.elapsed_s / 3600:.1f} h in {wall_s:.1f} s wall, {cpu_s:.1f} s CPU, plan to verdict")
    print(f"peak memory {rss_mib:.0f} MiB")
    print("probes: " + ", ".join(f"{counts[outcome]} {outcome.name}" for outcome in Outcome if counts.get(outcome)))
    print(f"hourly questions: {dict(watching[0].answers)}; hottest GPU {watching[0].hottest_c:.0f} C")


if __name__ == "__main__":
    main()
