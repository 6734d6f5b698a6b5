"""
How many stages it takes to load every link of a fat tree, and how long planning them takes.

    python benchmarks/link_coverage.py [HOSTS ...]        default: 64 128 256 512 1024 2048

Hosts have 8 RNICs on rail-optimised leaves. For each size, level and routing it prints stages, the lower bound, their
ratio, CPU seconds of one thread, and the part of the links that the *simulated* max-min rates load to half their rate;
links on no route are left out of that part and counted. At the end, how the time grows (exponent 1 = in proportion).
"""

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from fabric.plan.link_coverage import LEAST_LOAD, CoveragePlan, plan_by_chance, plan_coverage, routed_fabric
from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes

KNOWN = ("ftree", "updn", "minhop", "ar")
"""Routings with paths that can be known before: OpenSM's tables, and trunks that are loaded evenly."""

SIZES = (64, 128, 256, 512, 1024, 2048)
GOAL_S, GOAL_RATIO = 5.0, 1.5


@dataclass(frozen=True)
class Row:
    """One plan."""

    hosts: int
    network: str
    routing: str
    stages: int
    bound: int
    cpu_s: float
    covered: float
    never: int


def networks(hosts: int) -> dict[str, ClosSpec]:
    """Two levels, three, and three with one host missing, which no longer divides evenly."""
    small = hosts < 256
    ports, core = (16, 16) if small else (32, 32)
    two = ClosSpec(hosts, 8, ports, ports, 2, 0, 0, True, 400.0, 400.0)
    three = ClosSpec(hosts, 8, ports, ports, 3, core, core, True, 400.0, 400.0)
    fewer = ClosSpec(hosts - 1, 8, ports, ports, 3, core, core, True, 400.0, 400.0)
    return {"2 levels": two, "3 levels": three, "3, one short": fewer}


def part_loaded(clos: Clos, routing: str, plan: CoveragePlan) -> float:
    """The part of the links that are on a route and get half their rate when the network is simulated."""
    capacity = pooled(clos, clos.capacity_gbps, eta=1.0) if routing == "ar" else clos.capacity_gbps
    best = np.zeros(len(capacity))
    for stage in plan.stages:
        links = routes(clos, stage.src, stage.dst, engine=routing).links
        rates = np.repeat(max_min(links, capacity), links.shape[1])
        load = np.bincount(links.ravel(), weights=rates, minlength=len(capacity) + 1)[:-1]
        best = np.maximum(best, load / capacity)
    reachable = np.delete(best, np.array(plan.never, dtype=np.int64))
    return float((reachable >= LEAST_LOAD - 1e-9).mean())


def measure(hosts: int, name: str, spec: ClosSpec, routing: str) -> Row:
    """Plan once, then simulate."""
    clos = build(spec)
    start = time.process_time()
    plan = plan_coverage(routed_fabric(clos, routing=routing))
    cpu_s = time.process_time() - start
    covered = part_loaded(clos, routing, plan)
    return Row(hosts, name, routing, len(plan.stages), plan.bound, cpu_s, covered, len(plan.never))


def main() -> int:
    """Every size, network and routing; 1 when a goal is missed."""
    sizes = [int(word) for word in sys.argv[1:]] or list(SIZES)
    rows = []
    print(" hosts network       routing  stages bound ratio  CPU s loaded  never")
    for hosts in sizes:
        for name, spec in networks(hosts).items():
            for routing in KNOWN:
                row = measure(hosts, name, spec, routing)
                rows.append(row)
                ratio = row.stages / row.bound
                print(
                    f"{hosts:>6} {name:<13} {routing:<8} {row.stages:>6} {row.bound:>5} {ratio:>5.2f} "
                    f"{row.cpu_s:>6.2f} {row.covered:>6.1%} {row.never:>6,}"
                )
        chance(hosts)
    grown(rows)
    missed = [r for r in rows if r.cpu_s > GOAL_S or r.stages > GOAL_RATIO * r.bound or r.covered < 1]
    print(
        f"goals (<= {GOAL_S:g} s, <= {GOAL_RATIO:g} x bound, 100 % loaded): {len(missed)} of {len(rows)} rows miss one"
    )
    return 1 if missed else 0


def chance(hosts: int) -> None:
    """Stages for a hash that nobody knows."""
    clos = build(networks(hosts)["2 levels"])
    start = time.process_time()
    plan = plan_by_chance(lambda salt: routed_fabric(clos, routing="ecmp", salt=salt))
    cpu_s = time.process_time() - start
    said = f"{len(plan.stages):>6}   all covered: p >= {plan.likely:.2f}  {cpu_s:.2f} s"
    print(f"{hosts:>6} {'2 levels':<13} ecmp     {said}")


def grown(rows: list[Row]) -> None:
    """How the slowest plan of each size grows from the smallest to the largest."""
    slowest = {hosts: max(row.cpu_s for row in rows if row.hosts == hosts) for hosts in {row.hosts for row in rows}}
    first, last = min(slowest), max(slowest)
    if first != last:
        power = math.log(slowest[last] / slowest[first]) / math.log(last / first)
        times = f"{slowest[first]:.2f} s at {first} hosts, {slowest[last]:.2f} s at {last}"
        print(f"slowest plan: {times}: exponent {power:.2f}")


if __name__ == "__main__":
    sys.exit(main())
