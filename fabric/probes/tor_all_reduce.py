"""
All-reduce between neighbours under one ToR (MegaScale 4.3), for hosts whose intra-node phase passed.

Neighbours form a ring: each host is measured with two different partners, so that a bad host fails twice and its good
neighbours once each (two hosts alone cannot be told apart). RING is forced: see TorAllReduceSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.command import Command, CommandResult
from fabric.model.probe import Probe, ProbeCommands, Reading
from fabric.model.scenario import TorAllReduceSpec
from fabric.model.topology import Host, Platform, Topology
from fabric.probes.collective import argv, environment, expected_s, read_busbw, timeout_s
from fabric.probes.intra_host import repeated
from fabric.tools import launch

KIND = "tor_all_reduce"
NEEDS = "GPUs, and a neighbour of its make under its ToR that takes part"

LAUNCH_S = 10.0
"""Expected time for the launcher and NCCL's own start over several hosts (seconds; for the plan only)."""


def expand(
    spec: TorAllReduceSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """Ring neighbours of every ToR group; a host alone under its ToR has none."""
    del ports
    wanted = set(hosts)
    for group in topology.tor_groups:
        members = [topology.hosts[name] for name in group if name in wanted]
        for a, b in neighbours(members):
            ranks = len(a.platform.gpus) + len(b.platform.gpus)
            for label, series in repeated(f"{spec.name}", spec.repeat):
                yield Probe(
                    probe_id=f"{phase}/{a.name}+{b.name}/{label}",
                    kind=KIND,
                    phase=phase,
                    hosts=(a.name, b.name),
                    claims=_claims(a) + _claims(b),
                    duration_s=LAUNCH_S + expected_s(spec.sizes_bytes, spec.iterations),
                    params={
                        "ranks": ranks,
                        "sizes_bytes": spec.sizes_bytes,
                        "iterations": spec.iterations,
                        "algorithm": spec.algorithm,
                        "launcher": spec.launcher,
                        "series": f"{a.name}+{b.name}/{series}",
                    },
                )


def neighbours(members: Sequence[Host]) -> Iterator[tuple[Host, Host]]:
    """Ring pairs of hosts that one command line fits: n pairs for n > 2 hosts, one pair for two, none for one."""
    by_fit: dict[tuple[object, ...], list[Host]] = {}
    for host in members:
        if not host.platform.gpus:
            continue
        by_fit.setdefault(_fit(host.platform), []).append(host)
    for alike in by_fit.values():
        for position in range(len(alike) if len(alike) > 2 else len(alike) - 1):
            yield alike[position], alike[(position + 1) % len(alike)]


def _fit(platform: Platform) -> tuple[object, ...]:
    """What both hosts of a pair must have in common: ranks, RNICs by name, the environment and the program."""
    rnics = tuple((rnic.device, rnic.port) for rnic in platform.rnics)
    return len(platform.gpus), rnics, platform.gid_index, platform.env, platform.program("all_reduce_perf")


def _claims(host: Host) -> tuple[str, ...]:
    parts = [gpu.name for gpu in host.platform.gpus] + [rnic.device for rnic in host.platform.rnics]
    return tuple(f"{host.name}/{part}" for part in parts)


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """all_reduce_perf, one process a GPU, launched from the first host; hosts know each other by inventory name."""
    hosts = tuple((name, len(topology.hosts[name].platform.gpus)) for name in probe.hosts)
    platform = topology.hosts[probe.hosts[0]].platform
    env = environment(
        platform,
        NCCL_ALGO=str(probe.params["algorithm"]),
        # "=" asks for exact names: without it mlx5_1 also selects mlx5_10.
        NCCL_IB_HCA="=" + ",".join(f"{rnic.device}:{rnic.port}" for rnic in platform.rnics),
    )
    words = argv(probe, platform, op="all_reduce", gpus_per_process=1)
    if probe.params["launcher"] == "srun":
        launched = launch.srun(words, hosts=hosts, env=env, launcher_path=platform.program("srun"))
    else:
        mpirun, options = platform.program("mpirun"), platform.mpirun_options
        launched = launch.mpirun(words, hosts=hosts, env=env, launcher_path=mpirun, options=options)
    client = Command(host=probe.hosts[0], argv=launched, timeout_s=timeout_s(probe))
    return ProbeCommands(servers=(), client=client)


def read(probe: Probe, servers: Sequence[CommandResult], client: CommandResult | None) -> Reading:
    """Bus bandwidth per size, out of place and in place, or why there is none."""
    del servers
    return read_busbw(probe, client)
