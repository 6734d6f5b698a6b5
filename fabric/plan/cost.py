"""What a plan costs: time, GPU-hours, and how busy it keeps each host and each leaf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabric.model.probe import Probe
from fabric.model.scenario import Scenario
from fabric.model.topology import Topology
from fabric.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Load:
    """How much of the plan a host or a leaf takes part in: probes, and their expected durations added up (seconds)."""

    name: str
    probes: int
    work_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What a plan costs; *hosts* and *leaves* with most to do first.

    *gpu_hours* counts every GPU of the run's hosts from begin to end: nobody else can have them meanwhile.
    """

    duration_s: float
    gpus: int
    gpu_hours: float
    hosts: tuple[Load, ...]
    leaves: tuple[Load, ...]


def cost(plan: Plan, scenario: Scenario, topology: Topology) -> Cost:
    """Add up what is planned. Durations are those that the kinds of probe expect on hardware."""
    hosts: dict[str, tuple[int, float]] = {}
    leaves: dict[str, tuple[int, float]] = {}
    schedules = {id(one.schedule): one.schedule for one in plan.phases}  # rounds that are alike share theirs
    times = Counter(id(one.schedule) for one in plan.phases)
    for key, schedule in schedules.items():
        for slot in schedule.slots:
            for loads, names in ((hosts, slot.probe.hosts), (leaves, set(_leaves(slot.probe, topology)))):
                for name in names:
                    probes, work_s = loads.get(name, (0, 0.0))
                    loads[name] = probes + times[key], work_s + times[key] * slot.probe.duration_s
    gpus = sum(len(topology.hosts[name].platform.gpus) for name in scenario.hosts)
    return Cost(plan.duration_s, gpus, gpus * plan.duration_s / 3600, _loads(hosts), _loads(leaves))


def _loads(found: dict[str, tuple[int, float]]) -> tuple[Load, ...]:
    loads = (Load(name, probes, work_s) for name, (probes, work_s) in found.items())
    return tuple(sorted(loads, key=lambda load: (-load.work_s, load.name)))


def _leaves(probe: Probe, topology: Topology) -> Iterator[str]:
    """
    The leaves that a probe's bytes go through; none where they stay inside the host.

    Some probes say which RNICs send and receive; collectives between hosts use every RNIC of theirs.
    """
    if "peer_rnic" in probe.params:
        for name, key in ((probe.hosts[0], "rnic"), (probe.hosts[-1], "peer_rnic")):
            host = topology.hosts[name]
            rail = (
                host.platform.rnic_by_device[str(probe.params[key])].rail if key in probe.params else len(host.leaves)
            )
            yield from host.leaves[rail : rail + 1]
    elif len(probe.hosts) > 1:
        for name in probe.hosts:
            yield from topology.hosts[name].leaves
