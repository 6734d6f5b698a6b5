"""What a scenario needs of each host: programs, rights, memory, and who logs in where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fabric.changes.kind import Alters
from fabric.checks.needs_of_changes import altering
from fabric.model.inventory import Inventory
from fabric.model.link_burn import LinkBurnSpec
from fabric.model.scenario import (
    MIB,
    AllToAllSpec,
    ConcurrentRingsSpec,
    GroupAllReduceSpec,
    LoopbackSpec,
    PairwiseSpec,
    ProbeSpec,
    RnicToRnicSpec,
    Scenario,
    TorAllReduceSpec,
)
from fabric.model.topology import Host, Platform

NCCL_PINNED_BYTES = 256 * MIB
"""Memory that NCCL locks for its buffers on one process; a choice, on the large side of 16 channels of 4 MiB."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """
    What one host must have.

    *measured*: it takes part in the measurement; else it only carries changes out. *programs* are called by probes,
    *alters* says what changes call as root. *cuda*: ib_write_bw reaches GPU memory itself. *gpudirect*: some RNIC
    reads GPU memory. *pinned_bytes*: the most that one program locks. *peer*: the host that mpirun logs in to from
    here, by the name it uses. *sudo*: commands that need root go through sudo. *ssh*: it is reached over SSH.
    """

    measured: bool = True
    programs: tuple[str, ...] = ()
    alters: Alters = field(default_factory=Alters)
    cuda: bool = False
    gpudirect: bool = False
    pinned_bytes: int = 0
    peer: str | None = None
    sudo: bool = False
    ssh: bool = False


def host_needs(
    scenario: Scenario | None, hosts: tuple[str, ...], inventory: Inventory, *, backend: str
) -> dict[str, HostNeeds]:
    """
    The needs of *hosts*, and of those that carry out the scenario's changes.

    Without a scenario: what is true of every measurement on these hosts, but no program.
    """
    specs = [spec for phase in scenario.phases for spec in phase.probes] if scenario else []
    alters = altering(scenario, inventory) if scenario else {}
    common = HostNeeds(sudo=inventory.changes.sudo, ssh=backend == "ssh")
    made: dict[str, HostNeeds] = {}
    by_platform: dict[int, HostNeeds] = {}
    for name in hosts:
        platform = inventory.topology.hosts[name].platform
        needs = by_platform.get(id(platform))
        if needs is None:
            needs = by_platform[id(platform)] = _of_platform(specs, platform, common)
        made[name] = replace(needs, alters=alters[name]) if name in alters else needs
    for name, what in alters.items():
        if name not in made:
            made[name] = replace(common, measured=False, alters=what)
    return made


def with_peers(
    needs: Mapping[str, HostNeeds], reached: tuple[str, ...], hosts: Mapping[str, Host]
) -> dict[str, HostNeeds]:
    """The same for the hosts that answer, each that uses mpirun with another to log in to, all of them in a ring."""
    ring = [name for name in reached if "mpirun" in needs[name].programs and _by_ssh(hosts[name].platform)]
    peers = {name: ring[(place + 1) % len(ring)] for place, name in enumerate(ring)} if len(ring) > 1 else {}
    return {name: replace(needs[name], peer=peers[name]) if name in peers else needs[name] for name in reached}


def _by_ssh(platform: Platform) -> bool:
    """Open MPI starts its daemons over ssh, unless the site's own options say otherwise."""
    return not any("plm" in word for word in platform.mpirun_options)


def _of_platform(specs: list[ProbeSpec], platform: Platform, common: HostNeeds) -> HostNeeds:
    found = [need for spec in specs for need in _of_probe(spec, platform)]
    return replace(
        common,
        programs=tuple(dict.fromkeys(name for need in found for name in need.programs)),
        cuda=any(need.cuda for need in found),
        gpudirect=any(need.gpudirect for need in found),
        pinned_bytes=max((need.pinned_bytes for need in found), default=0),
    )


def _of_probe(spec: ProbeSpec, platform: Platform) -> Iterator[HostNeeds]:
    """What one kind of probe needs, where these hosts can take part in it."""
    gpus = len(platform.gpus)
    if isinstance(spec, LoopbackSpec | RnicToRnicSpec | PairwiseSpec | LinkBurnSpec):
        # perftest holds a sending and a receiving half for each queue pair.
        pinned_bytes = 2 * spec.size_bytes * spec.queue_pairs
        uses_gpus = isinstance(spec, LoopbackSpec) or (isinstance(spec, LinkBurnSpec) and spec.memory == "gpu")
        to_gpu = uses_gpus and gpus > 0
        yield HostNeeds(programs=("ib_write_bw", "numactl"), cuda=to_gpu, gpudirect=to_gpu, pinned_bytes=pinned_bytes)
    elif isinstance(spec, AllToAllSpec) and gpus > 1:
        yield HostNeeds(programs=("alltoall_perf",))
    elif isinstance(spec, TorAllReduceSpec | GroupAllReduceSpec | ConcurrentRingsSpec) and gpus:
        yield HostNeeds(programs=("all_reduce_perf", spec.launcher), gpudirect=True, pinned_bytes=NCCL_PINNED_BYTES)
