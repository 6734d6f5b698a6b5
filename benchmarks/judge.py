"""
How often the judge calls a healthy fleet bad, what it finds, and how fast: on measured racks with noise, no mock.

    python benchmarks/judge.py [HOSTS [RUNS]]        default: 128 hosts, 10 runs

Every host is measured with loopback and RNIC pairs, the limits far below, so that only peers can tell. Prints per clean
run the numbers to be measured again and the suspects, then how often a slow RNIC is named, and nothing else is; with
one sample and with five. At the end the CPU seconds of judging 294,912 probes, the self-check of 2,048 hosts, and of
their whole verdict (suspects, components, reasons).
"""

import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured_rack import (
    Factor,
    healthy,
    judge_of,
    judged,
    measured,
    probes_of,
    rack_topology,
    slow_rnic,
)
from fabric.cli.main import COLLECTED
from fabric.judge.locate.suspects import locate
from fabric.judge.verdict.conclude import conclude
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology

HOST_SPREAD = 0.004  # from host to host, as the rules were compared with
SLOW = "gpu005/mlx5_6"
LOSSES = (0.03, 0.06, 0.10)
Named = tuple[list[str], int, float]
"""The suspects, how many numbers are to be measured again, and the number of samples."""


def named(topology: Topology, probes: Sequence[Probe], *, cv: float, seed: int, factor: Factor = healthy) -> Named:
    """What is named, with as many samples as *probes* have."""
    pairs = measured(probes, cv=cv, seed=seed, factor=factor, host_spread=HOST_SPREAD)
    verdicts, results = judged(pairs, topology), {result.probe_id: result for _, result in pairs}
    found = locate(probes, verdicts, results, topology=topology, outcome=Outcome.FAIL).suspects
    again = sum(verdict.outcome is Outcome.MARGINAL for verdict in verdicts.values())
    return [suspect.component for suspect in found], again, len(probes) / len(_series(probes))


def _series(probes: Sequence[Probe]) -> set[object]:
    return {(probe.kind, probe.hosts, probe.params["series"]) for probe in probes}


def alarms(topology: Topology, runs: int) -> None:
    """False positives of clean runs, and recall."""
    print(f"{'CV':>6}{'n':>6}{'suspects/clean run':>20}{'again/clean run':>18}", end="")
    print("".join(f"{f'found -{loss:.0%}':>13}" for loss in LOSSES))
    for cv in (0.01, 0.02, 0.03):
        for repeat in (1, 5):
            probes = probes_of(topology, repeat=repeat)
            clean = [named(topology, probes, cv=cv, seed=seed) for seed in range(runs)]
            cells = [sum(len(found) for found, _, _ in clean) / runs, sum(again for _, again, _ in clean) / runs]
            for loss in LOSSES:
                factor = slow_rnic(SLOW, 1 - loss)
                hits = [named(topology, probes, cv=cv, seed=seed, factor=factor)[0] == [SLOW] for seed in range(runs)]
                cells.append(sum(hits) / runs)
            n = sum(samples for _, _, samples in clean) / runs
            print(f"{cv:>6.0%}{n:>6.1f}{cells[0]:>20.2f}{cells[1]:>18.2f}", end="")
            print("".join(f"{cell:>13.2f}" for cell in cells[2:]), flush=True)


def speed() -> None:
    """CPU seconds of the largest fleet."""
    topology = rack_topology(2048)
    gc.set_threshold(*COLLECTED)  # as every command does
    for words in ("judged", "whole verdict"):
        pairs = measured(probes_of(topology), cv=0.003, seed=1)
        judge, probes = judge_of(topology), [probe for probe, _ in pairs]
        results = {probe.probe_id: result for probe, result in pairs}
        started_s = time.process_time()
        if words == "judged":
            judged(pairs, topology)
        else:
            conclude(probes, results, topology=topology, judge=judge)
        took_s = time.process_time() - started_s
        share = 294_912 / len(pairs)
        print(f"{len(pairs):,} probes {words} in {took_s:.2f} CPU s: {share * took_s:.2f} s for 294,912")


def main() -> None:
    """Print the table."""
    words = [int(word) for word in sys.argv[1:]]
    hosts, runs = (words + [128, 10][len(words) :])[:2]
    alarms(rack_topology(hosts), runs)
    speed()


if __name__ == "__main__":
    main()
