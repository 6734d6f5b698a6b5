"""How fast the simulated network answers: run it, it prints CPU milliseconds, how they grow, and ratios to SimGrid.

One thread, process CPU time, best of several. SimGrid (Debian's libsimgrid-dev, with g++) gets the same flows on the
same routes in the same run; without it our own times are printed alone. The targets are measured first, while the
process is young and every large array costs page faults; the same solve takes less than half of that further down.
With ``--plot FILE.svg`` the growth is measured and drawn (matplotlib, of the dev extra), and nothing else.
"""

import argparse
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.oracle import simgrid  # the driver that also regenerates tests/golden/simgrid
from fabric.sim import what_if
from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import ENGINES, pooled, routes

SECONDS = 0.5  # of measurement for each number, at least one run
GROWTH = (512, 1024, 4096, 16384, 65536)
SIMGRID_CASES = ((512, 1, True), (512, 8, True), (4096, 1, True), (16384, 1, True), (16384, 8, False))


def network(nics: int) -> ClosSpec:
    """Radix 32 on two levels up to 512 NICs and on three up to 8,192, radix 64 above."""
    if nics <= 512:
        return ClosSpec(nics, 1, 16, 16, 2, 0, 0, False, 400.0, 400.0)
    half = 16 if nics <= 8192 else 32
    return ClosSpec(nics, 1, half, half, 3, half, half, False, 400.0, 400.0)


def rack_scale(hosts: int, rails: int) -> ClosSpec:
    """Hosts on rail-optimised leaves of 32, in pods of 32 leaves."""
    return ClosSpec(hosts, rails, 32, 32, 3, 32, 32, True, 400.0, 400.0)


def permutation(clos: Clos, seed: int) -> what_if.Traffic:
    """One cycle through all RNICs, drawn evenly."""
    order = np.random.default_rng(seed).permutation(clos.nics).astype(np.int64)
    return order, np.roll(order, -1), np.arange(clos.nics, dtype=np.int64)


def pairs(clos: Clos, seed: int) -> what_if.Traffic:
    """All hosts in random pairs, each pair a ring of two on every rail."""
    order = np.random.default_rng(seed).permutation(clos.spec.hosts).reshape(2, -1).T
    rings = [what_if.ring(clos, two) for two in order]
    src, dst = (np.concatenate([one[end] for one in rings]) for end in (0, 1))
    return src, dst, np.repeat(np.arange(len(rings)), len(rings[0][0]))


def cpu_ms(work: Callable[[], object]) -> float:
    """The best of all runs that fit into the time."""
    best, end = float("inf"), time.process_time() + SECONDS
    while best == float("inf") or time.process_time() < end:
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1e3


def one_job(clos: Clos, engine: str) -> float:
    """The rate of one all-reduce ring through every host on every rail, routing included."""
    src, dst, job = what_if.ring(clos, np.arange(clos.spec.hosts))
    paths = routes(clos, src, dst, engine=engine)
    capacity = pooled(clos, clos.capacity_gbps) if engine == "ar" else clos.capacity_gbps
    return float(max_min(paths.links, capacity, weight=paths.weight, job=job[paths.flow])[0])


def sweep() -> None:
    """64 hosts of 8 RNICs, 40 seeds, every engine: pairs on a healthy network, a random ring on one with slow links."""
    clos = build(ClosSpec(64, 8, 16, 16, 2, 0, 0, True, 400.0, 400.0))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bad = rng.choice(512, 16, replace=False)
        hit = clos.capacity_gbps.copy()
        hit[2 * clos.nics + np.concatenate([bad, bad + 512])] *= 0.25
        for capacity, flows in (
            (clos.capacity_gbps, pairs(clos, seed)),
            (hit, what_if.ring(clos, rng.permutation(64))),
        ):
            for engine in ENGINES:
                for qps in (1, 4) if engine == "ecmp" else (1,):
                    paths = routes(clos, flows[0], flows[1], engine=engine, salt=seed, qps=qps)
                    given = pooled(clos, capacity) if engine == "ar" else capacity
                    max_min(paths.links, given, weight=paths.weight, job=flows[2][paths.flow])


def ours() -> None:
    """The targets, each beside what was measured."""
    clos = build(network(16384))
    src, dst, _ = permutation(clos, 1)
    links = routes(clos, src, dst, engine="ftree").links
    print("what                                              CPU ms    target")
    row("T1 one solve, 16,384 flows", cpu_ms(lambda: max_min(links, clos.capacity_gbps)), 25)
    row("T3 build a network of 16,384 RNICs", cpu_ms(lambda: build(network(16384))), 50)
    racks = build(rack_scale(2048, 8))
    for engine in ("ecmp", "ftree", "ar"):
        row(f"T4 all-reduce on 16,384 GPUs, {engine}", cpu_ms(lambda e=engine: one_job(racks, e)), 15)
    row("T5 64 hosts, 40 seeds, all engines, two patterns", cpu_ms(sweep), 15_000)
    tracemalloc.start()
    whole(65536)
    peak_mb = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    row("T6 65,536 RNICs: build, route, solve", cpu_ms(lambda: whole(65536)), 500)
    print(f"{'   and its memory':45s} {peak_mb:9.0f} MB  {200:6d}")


def row(what: str, took_ms: float, target_ms: int) -> None:
    """One line of the table."""
    print(f"{what:48s} {took_ms:9.2f}  {target_ms:8d}")


def whole(nics: int) -> None:
    """Build a network, route a permutation over it and solve it."""
    clos = build(network(nics))
    src, dst, _ = permutation(clos, 1)
    max_min(routes(clos, src, dst, engine="ftree").links, clos.capacity_gbps)


@dataclass(frozen=True)
class Grown:
    """CPU milliseconds on a network of so many RNICs."""

    nics: int
    build_ms: float
    route_ms: float
    solve_ms: float


def growth() -> list[Grown]:
    """A permutation on ever larger networks."""
    print("\nRNICs    links  build ms  route ms  solve ms  us/flow")
    rows = []
    for nics in GROWTH:
        clos = build(network(nics))
        src, dst, _ = permutation(clos, 1)
        paths = routes(clos, src, dst, engine="ftree")
        took = (
            cpu_ms(lambda n=nics: build(network(n))),
            cpu_ms(lambda c=clos, s=src, d=dst: routes(c, s, d, engine="ftree")),
            cpu_ms(lambda c=clos, p=paths: max_min(p.links, c.capacity_gbps)),
        )
        print(f"{nics:6d} {clos.links:7d} {took[0]:9.3f} {took[1]:9.3f} {took[2]:9.3f} {sum(took) * 1e3 / nics:8.3f}")
        rows.append(Grown(nics, *took))
    return rows


def draw(rows: list[Grown], path: Path) -> None:
    """The growth as a picture, both axes logarithmic: a straight line of slope 1 grows in proportion."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "growth"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    nics = [row.nics for row in rows]
    total = [row.build_ms + row.route_ms + row.solve_ms for row in rows]
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    axes.loglog(nics, total, "o-", color="black", linewidth=2, label="all three")
    for name, marker in (("solve", "s"), ("route", "^"), ("build", "d")):
        axes.loglog(nics, [getattr(row, f"{name}_ms") for row in rows], f"{marker}-", label=name)
    axes.loglog(nics, [total[-1] * n / nics[-1] for n in nics], ":", color="gray", label="in proportion to RNICs")
    axes.set_xscale("log", base=2)
    axes.set_xticks(nics, [f"{n:,}" for n in nics])
    axes.minorticks_off()
    axes.set_xlabel("RNICs in the network, one flow each (permutation)")
    axes.set_ylabel("CPU time of one thread, ms")
    axes.set_title("Simulated network: time to build, route and solve")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def beside_simgrid() -> None:
    """The same flows on the same routes, in one run."""
    with tempfile.TemporaryDirectory() as folder:
        program = simgrid.compiled(Path(folder))
        if program is None:
            print("\nSimGrid or g++ is not installed (apt-get install libsimgrid-dev g++): our times alone")
            return
        print("\nbeside SimGrid 3.32 (CM02, optim:Full)   SimGrid ms   ours ms   ratio   largest difference")
        for nics, each, finish in SIMGRID_CASES:
            compare(program, nics, each, finish=finish)


def compare(program: Path, nics: int, each: int, *, finish: bool) -> None:
    """One network: one solve, and all flows to their end."""
    clos = build(network(nics))
    src, dst = simgrid.flows(nics, each, 1)
    paths, size_bytes = routes(clos, src, dst, engine="ftree"), np.full(len(src), simgrid.SIZE_BYTES)
    if not simgrid.same_routes(clos, paths.links, simgrid.ask(program, clos, src, dst, mode="routes").routes):
        raise SystemExit(f"{nics} NICs: SimGrid routes differently; nothing to compare")
    answers = [simgrid.ask(program, clos, src, dst, mode="finish" if finish else "solve") for _ in range(3)]
    solve_ms = min(answer.cpu_s["solve"] for answer in answers) * 1e3
    took_ms = cpu_ms(lambda: max_min(paths.links, clos.capacity_gbps))
    print(
        f"{f'one solve, {len(src)} flows, {nics} RNICs':40s} {solve_ms:10.3f} {took_ms:9.3f} {solve_ms / took_ms:6.1f}x"
    )
    if not finish:
        return
    end_s = simgrid.completion(paths.links, clos.capacity_gbps, size_bytes)
    off = np.abs(end_s / answers[0].end_s - 1).max()
    print(f"{'   every flow to its end':70s} {off:.1e}")


def main() -> None:
    """All three tables, or one picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="measure the growth alone and draw it")
    path = parser.parse_args().plot
    if path is not None:
        draw(growth(), path)
        return
    ours()
    growth()
    beside_simgrid()


if __name__ == "__main__":
    main()
