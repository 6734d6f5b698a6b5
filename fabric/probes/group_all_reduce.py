"""One all-reduce over many hosts, as a training job runs it: how much of the network is left to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import GroupAllReduceSpec
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.collective import read_busbw

KIND = "group_all_reduce"
NEEDS = "as many hosts of one make as it asks for, with GPUs, and at least two"
SOME = True


def expand(
    spec: GroupAllReduceSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """The first hosts that are alike and enough; none when there are too few."""
    del ports
    for alike in multi_host.alike(topology.hosts[name] for name in hosts):
        group = _first(alike, spec)
        if group is None:
            continue
        if spec.order == "random":
            group = multi_host.shuffled(group, seed=spec.seed)
        yield from multi_host.probes(spec, group, kind=KIND, phase=phase, label=f"{len(group)}-hosts")
        return


def _first(alike: list[Host], spec: GroupAllReduceSpec) -> list[Host] | None:
    """As many hosts as are asked for; None when there are not so many, or GPUs would be left over."""
    count = len(alike) if spec.hosts is None else spec.hosts
    if spec.gpus is not None:
        count, left = divmod(spec.gpus, len(alike[0].platform.gpus))
        if left:
            return None
    return alike[:count] if 2 <= count <= len(alike) else None


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """all_reduce_perf over all of them."""
    return multi_host.commands(probe, topology)


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """Bus bandwidth per size, out of place and in place, or why there is none."""
    del topology
    return read_busbw(probe, answered, op="all_reduce")
