"""Measured racks without a simulator: every probe of a rack with noise."""

import random
from collections.abc import Callable, Sequence

from fabric.judge.verdict.probes import Judge
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.recorded import Recorded
from fabric.model.scenario import JudgeSettings, Phase
from fabric.model.topology import Gpu, Host, PcieSwitch, Platform, Rnic, Switch, Topology
from fabric.model.verdict import Baseline, Limit, ProbeVerdict
from fabric.plan import PhasePlan, Schedule, Slot
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec

NORMAL = {"pix": 397.0, "node": 368.0, "sys": 248.0, "mem_local": 398.0, "mem_remote": 372.0, None: 397.0}
"""Gb/s by link class, as the simulated rack has them."""

LOW_LIMITS = tuple(Limit(kind, 100.0, "far below all", min_size_bytes=1) for kind in ("loopback", "rnic_to_rnic"))

Factor = Callable[[Probe], float]
"""What share of the normal bandwidth a probe gets."""


def healthy(_: Probe) -> float:
    """Nothing is slow."""
    return 1.0


def slow_rnic(name: str, factor: float) -> Factor:
    """``gpu002/mlx5_3`` passes on only so much of its line: a path that never carries more does not show it."""
    host, device = name.split("/")

    def of(probe: Probe) -> float:
        through = probe.hosts == (host,) and device in (probe.params.get("rnic"), probe.params.get("peer_rnic"))
        return min(1.0, factor * 400.0 / NORMAL[_link_class(probe)]) if through else 1.0

    return of


def probes_of(topology: Topology, *, repeat: int = 1) -> list[Probe]:
    """Loopback and RNIC pairs of every host."""
    specs = (LoopbackSpec(repeat=repeat), RnicToRnicSpec(repeat=repeat))
    return list(expand_phase(Phase("intra-host", specs), topology, tuple(topology.hosts)))


def measured(
    probes: Sequence[Probe], *, cv: float, seed: int, factor: Factor = healthy, host_spread: float = 0.003
) -> list[tuple[Probe, ProbeResult]]:
    """Normal noise of this CV a sample, and a little from host to host; one after the other."""
    draw = random.Random(seed)
    hosts = {name: draw.gauss(1.0, host_spread) for name in sorted({probe.hosts[0] for probe in probes})}
    pairs = []
    for at_s, probe in enumerate(probes):
        value = NORMAL[_link_class(probe)] * hosts[probe.hosts[0]] * draw.gauss(1.0, cv) * factor(probe)
        pairs.append((probe, one_number(probe.probe_id, value, int(str(probe.params["size_bytes"])), at_s=at_s)))
    return pairs


def one_number(
    name: str, gbps: float, size_bytes: int | None = 65536, *, at_s: float = 0.0, s: float = 1.0
) -> ProbeResult:
    """A probe of this id measured one number, in *s* seconds from *at_s* on."""
    rows = (Measurement(name, "bandwidth", gbps, "Gb/s", size_bytes),)
    return ProbeResult(name, 1, rows, None, "", at_s, at_s + s)


def judged(
    pairs: Sequence[tuple[Probe, ProbeResult]],
    topology: Topology,
    *,
    limits: tuple[Limit, ...] = LOW_LIMITS,
    recorded: tuple[Recorded, ...] = (),
) -> dict[str, ProbeVerdict]:
    """The verdicts by probe id."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", limits, recorded)}, JudgeSettings(marginal=0.005), topology)
    return judge.confirmed([probe for probe, _ in pairs], {result.probe_id: result for _, result in pairs})[0]


def normal_gbps(probe: Probe) -> float:
    """What a healthy probe of this link class measures."""
    return NORMAL[_link_class(probe)]


def _link_class(probe: Probe) -> str | None:
    given = probe.params.get("link_class")
    return None if given is None else str(given)


def one_number_a_host(topology: Topology, *, repeat: int = 1) -> list[Probe]:
    """A single pair of RNICs of each host, so that no other probe can confirm what it says."""
    probes = expand_phase(Phase("x", (RnicToRnicSpec(repeat=repeat),)), topology, tuple(topology.hosts))
    return [probe for probe in probes if probe.params["series"] == "mlx5_0.mlx5_1"]


def judge_of(
    topology: Topology, *, limits: tuple[Limit, ...] = LOW_LIMITS, recorded: tuple[Recorded, ...] = ()
) -> Judge:
    """A judge by limits that all meet, or those given."""
    baselines = {"h100-ndr": Baseline("h100-ndr", "f", limits, recorded)}
    return Judge(baselines, JudgeSettings(marginal=0.005), topology)


def phase_of(probes: Sequence[Probe], phase: Phase | None = None) -> PhasePlan:
    """A phase that plans these probes."""
    slots = tuple(Slot(probe, 0.0) for probe in probes)
    return PhasePlan(phase or Phase("x", ()), Schedule(slots, 60.0, 60.0, "", 1), ())


def result_of(probe: Probe, value_gbps: float) -> ProbeResult:
    """A probe that measured one number."""
    size = probe.params.get("size_bytes")
    return one_number(probe.probe_id, value_gbps, size if isinstance(size, int) else None)


def dgx_platform(name: str = "dgx", *, parts: int = 8, line_rate_gbps: float = 400.0) -> Platform:
    """A platform with *parts* GPUs and as many RNICs, two of each on a PCIe switch, half on each NUMA node."""
    half = parts // 2
    return Platform(
        name=name,
        gpus=tuple(Gpu(i, i // half, f"pcie{i // 2}") for i in range(parts)),
        rnics=tuple(Rnic(f"mlx5_{i}", 1, i, i // half, f"pcie{i // 2}", line_rate_gbps, (i,)) for i in range(parts)),
        numa_nodes=2,
        pcie_switches=tuple(PcieSwitch(f"pcie{i}", 2 * i // half) for i in range(half)),
        link_layer="infiniband",
        baseline="h100-ndr",
    )


def rack_topology(hosts: int, *, parts: int = 8) -> Topology:
    """Hosts gpu001.. under one set of rail leaves, which a spine joins."""
    platform = dgx_platform(parts=parts)
    leaves = tuple(f"leaf{rail}" for rail in range(parts))
    return Topology(
        hosts={
            name: Host(name, platform, f"{name}.mgmt", "r1", leaves)
            for name in (f"gpu{number:03d}" for number in range(1, hosts + 1))
        },
        switches={leaf: Switch(leaf, "leaf") for leaf in leaves} | {"spine0": Switch("spine0", "spine")},
    )
