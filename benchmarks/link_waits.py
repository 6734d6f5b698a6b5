"""
Cables that wait: of counters alone, without the probes of a run, how often is which cable named?

``python benchmarks/link_waits.py [FIRST [SEEDS]]``: three fabrics (16 hosts of two and of three levels, the shipped pod
of 64), adaptive and static by two engines; six hours of random pairs, looked at each half hour. Nothing is wrong, or a
cable between switches carries half, both ways or one way. What is printed are the runs, those in which the cable FAILs
or is INCONCLUSIVE, and all healthy cables that do or are.
"""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.link_faults import INVENTORY, RACKS, written
from fabric.config.inventory import load_inventory
from fabric.judge.ports.waiting import lagging
from fabric.model.inventory import Fault
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse
from fabric.model.topology import Topology
from fabric.sim.net.clos import Floats
from fabric.sim.net.links import LinkTraffic, link_faults, link_state
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.named_clos import net_from_topology
from fabric.sim.net.route import pooled, routes

LOOKS, LOOK_S, ROUNDS = 12, 1800.0, 6
"""So many windows, and in each so many draws of pairs."""

ENGINES = ("ar", "ftree", "ecmp")
FAULTS = ("none", "half", "one way")


def waited(topology: Topology, engine: str, faults: list[Fault], seed: int) -> tuple[Counter[str], Counter[str]]:
    """The cables that FAIL, and those that are INCONCLUSIVE."""
    net = net_from_topology(topology)
    clos, random = net.clos, np.random.default_rng(seed)
    capacity = link_state(net, list(link_faults(net, faults)), link_layer="infiniband").capacity_gbps
    limits = pooled(clos, capacity) if engine == "ar" else capacity
    traffic = LinkTraffic(clos, seed=seed)
    rails = clos.spec.rails
    told = [traffic_of(traffic, clos.capacity_gbps)]
    for look in range(1, LOOKS + 1):
        for draw in range(ROUNDS):
            hosts = random.permutation(len(net.hosts))
            src = clos.nic_at[hosts[:, np.newaxis], np.arange(rails)].ravel()
            dst = clos.nic_at[np.roll(hosts, 1)[:, np.newaxis], np.arange(rails)].ravel()
            paths = routes(clos, src, dst, engine=engine, salt=seed * LOOKS * ROUNDS + look * ROUNDS + draw)
            wanted = np.full(len(src), 390.0)
            rate = max_min(paths.links, limits, limit_gbps=wanted) * 10.0
            adaptive = engine == "ar"
            traffic.add(replace(paths, weight=rate), 1.0, held_gb=0.0, adaptive=adaptive)
            traffic.add(replace(paths, weight=wanted * 10.0 - rate), 0.0, held_gb=1.0, adaptive=adaptive)
        traffic.deal_out(capacity, look * LOOK_S)
        told.append(traffic_of(traffic, clos.capacity_gbps))
    counts = np.array(told)
    failed, open_ = Counter[str](), Counter[str]()
    below: dict[str, list[tuple[str, tuple[int, int]]]] = {}
    for link in topology.links():
        if "/" not in link.a:
            below.setdefault(link.a, []).append((link.b, net.cables(link.a, link.b)[link.number]))
    times = [number * LOOK_S for number in range(LOOKS + 1)]
    for lower, cables in below.items():
        ways = [[(f"{upper} {way}", f"{number}") for number, (upper, _) in enumerate(cables)] for way in range(2)]
        courses = {
            ways[way][place]: {
                name: CounterCourse(times, counts[:, kind, ids[way]].astype(int).tolist(), times[-1])
                for kind, name in enumerate(("port_xmit_data", "port_xmit_wait"))
            }
            for place, (_, ids) in enumerate(cables)
            for way in range(2)
        }
        for place, (_, outcome, _) in lagging(
            ways, courses, rate_gbps=float(clos.capacity_gbps[cables[0][1][0]])
        ).items():
            (failed if outcome is Outcome.FAIL else open_)[f"{lower}--{cables[place][0]}"] += 1
    return failed, open_


def traffic_of(traffic: LinkTraffic, lines: Floats) -> list[list[float]]:
    """What all links have sent (words of 4 bytes) and waited (ticks of 8 bytes), as a switch counts it."""
    both = [traffic.of(link) for link in range(len(lines))]
    return [[gb * 1e9 / 32 for gb, _ in both], [s * line * 1e9 / 64 for (_, s), line in zip(both, lines, strict=True)]]


def main(first: int, seeds: int) -> None:
    """Print the sums."""
    with TemporaryDirectory() as folder:
        fabrics = {rack: written(Path(folder), rack, "{}").topology for rack in RACKS}
    fabrics["pod-64"] = load_inventory(INVENTORY / "pod-64.yaml").topology
    for name, topology in fabrics.items():
        between = [link for link in topology.links() if "/" not in link.a]
        for engine in ENGINES:
            for fault in FAULTS:
                sums: Counter[str] = Counter()
                for seed in range(first, first + seeds):
                    link = between[int(np.random.default_rng(seed).integers(len(between)))]
                    own = f"{link.a}--{link.b}"
                    component = own if fault == "half" else f"{link.a}->{link.b}"
                    faults = [] if fault == "none" else [Fault(component, "slow", 0.5)]
                    failed, open_ = waited(topology, engine, faults, seed)
                    mine = own if fault != "none" else ""
                    sums.update(named=int(mine in failed), open=int(mine in open_ and mine not in failed))
                    sums["healthy FAIL"] += sum(failed.values()) - failed[mine]
                    sums["healthy INCONCLUSIVE"] += sum(open_.values()) - open_[mine]
                said = f"FAIL {sums['named']}, INCONCLUSIVE {sums['open']}" if fault != "none" else ""
                others = f"healthy cables FAIL {sums['healthy FAIL']}, INCONCLUSIVE {sums['healthy INCONCLUSIVE']}"
                print(f"{name:17} {engine:6} {fault:8} {seeds} seeds: {said}{'; ' if said else ''}{others}", flush=True)


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    main((words or [1])[0], (words[1:] or [20])[0])
