"""
How often the judge calls a healthy fleet bad, what it finds, and how fast: on measured racks with noise, no mock.

    python benchmarks/judge.py [HOSTS [RUNS]]        default: 128 hosts, 10 runs

Every host is measured with loopback and RNIC pairs, the limits far below, so that only peers can tell. Prints per clean
run the numbers to be measured again and the suspects, then how often a slow RNIC is named, and nothing else is. At the
end the CPU seconds of judging 294,912 probes, the self-check of 2,048 hosts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fabric.analysis.localise import suspects
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from tests.analysis.noisy_rack import Factor, healthy, judged, measured, probes_of, slow_rnic
from tests.conftest import rack_topology

HOST_SPREAD = 0.004  # from host to host, as the rules were compared with
SLOW = "gpu005/mlx5_6"


def named(
    topology: Topology, probes: Sequence[Probe], *, cv: float, seed: int, factor: Factor = healthy
) -> tuple[list[str], int]:
    """The suspects, and how many numbers are to be measured again."""
    verdicts = judged(measured(probes, cv=cv, seed=seed, factor=factor, host_spread=HOST_SPREAD), topology)
    found = suspects(probes, verdicts, topology=topology, outcome=Outcome.FAIL)
    again = sum(verdict.outcome is Outcome.MARGINAL for verdict in verdicts.values())
    return [suspect.component for suspect in found], again


def alarms(topology: Topology, runs: int) -> None:
    """False positives of clean runs, and recall."""
    print(f"{'CV':>6}{'n':>4}{'suspects/clean run':>20}{'again/clean run':>18}{'found -6 %':>12}{'found -10 %':>13}")
    for cv in (0.01, 0.02, 0.03):
        for repeat in (1, 5):
            probes = probes_of(topology, repeat=repeat)
            clean = [named(topology, probes, cv=cv, seed=seed) for seed in range(runs)]
            cells = [sum(len(found) for found, _ in clean) / runs, sum(again for _, again in clean) / runs]
            for loss in (0.06, 0.10):
                factor = slow_rnic(SLOW, 1 - loss)
                hits = [named(topology, probes, cv=cv, seed=seed, factor=factor)[0] == [SLOW] for seed in range(runs)]
                cells.append(sum(hits) / runs)
            print(
                f"{cv:>6.0%}{repeat:>4}{cells[0]:>20.2f}{cells[1]:>18.2f}{cells[2]:>12.2f}{cells[3]:>13.2f}", flush=True
            )


def speed() -> None:
    """CPU seconds of the largest fleet."""
    topology = rack_topology(2048)
    pairs = measured(probes_of(topology), cv=0.003, seed=1)
    started_s = time.process_time()
    judged(pairs, topology)
    took_s = time.process_time() - started_s
    print(f"{len(pairs):,} probes judged in {took_s:.2f} CPU s: {294_912 / len(pairs) * took_s:.2f} s for 294,912")


def main() -> None:
    """Print the table."""
    words = [int(word) for word in sys.argv[1:]]
    hosts, runs = (words + [128, 10][len(words) :])[:2]
    alarms(rack_topology(hosts), runs)
    speed()


if __name__ == "__main__":
    main()
