"""What all-reduces over several hosts share: which hosts fit together, what they claim, and the launched command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import log2
from typing import ClassVar

from fabric.model.command import MIB, Command
from fabric.model.probe import Answered, ParamValue, Probe, ProbeCommands, Reading
from fabric.model.scenario import LimitKey, Uses
from fabric.model.topology import NVLINK, Host, Platform, Topology, joined_by_nvlink
from fabric.probes.collective import (
    MNNVL,
    START_S,
    CollectiveSpec,
    argv,
    environment,
    read_busbw,
    timeout_s,
    transfer_s,
)
from fabric.probes.intra_host import repeated
from fabric.probes.keys import Algorithm, Launcher
from fabric.probes.perftest_pair import int_param
from fabric.tools import launch

LAUNCH_S = 10.0
"""Expected time for the launcher and NCCL's own start over two hosts (seconds; for the plan and the deadline)."""

LAUNCH_MORE_S = 2.0
"""And for each doubling of that number; a choice, on the slow side."""

OF_LINE_RATE = 0.92
"""Of its RNICs' line rate a ring all-reduce carries (46 of 50 GB/s: nccl-tests issue 290); for the plan."""

NO_RNICS_GBPS = 100.0
"""What a host without RNICs is planned with, as if over one ordinary interface (a choice)."""

NCCL_PINNED_BYTES = 256 * MIB
"""Memory that NCCL locks for its buffers on one process; a choice, on the large side of 16 channels of 4 MiB."""

BYTES_PER_RANK = 256
"""All ranks are listed before the first row, in 93 bytes and the launcher's mark: 16,384 of them take 1.5 MB."""


def alike(hosts: Iterable[Host]) -> list[list[Host]]:
    """Hosts with GPUs in groups that one command line fits, in the order first met."""
    by_fit: dict[tuple[object, ...], list[Host]] = {}
    for host in hosts:
        if host.platform.gpus:
            by_fit.setdefault(_fit(host.platform), []).append(host)
    return list(by_fit.values())


def joined(names: Iterable[str], topology: Topology) -> list[list[Host]]:
    """The same, of hosts whose rails have a way to each other."""
    by_part: dict[tuple[int | None, ...], list[Host]] = {}
    for host in map(topology.hosts.__getitem__, names):
        parts = tuple(topology.part_of(host, rnic.rail) for rnic in host.platform.rnics)
        by_part.setdefault(parts, []).append(host)
    return [group for hosts in by_part.values() for group in alike(hosts)]


def _fit(platform: Platform) -> tuple[object, ...]:
    """What all hosts must have in common: ranks, RNICs by name, the environment and the program."""
    rnics = tuple((rnic.device, rnic.port) for rnic in platform.rnics)
    called = (platform.program("all_reduce_perf"), platform.wrapper, platform.nccl_tests_options)
    return len(platform.gpus), rnics, platform.gid_index, platform.traffic_class, platform.env, called


def shuffled(hosts: Iterable[Host], *, seed: int) -> list[Host]:
    """The same hosts in an order that depends on their names and the seed only, on any machine."""
    return sorted(hosts, key=lambda host: sha256(f"{seed}/{host.name}".encode()).digest())


def start_s(hosts: int) -> float:
    """Expected time until the first pass over so many hosts (seconds; for the plan and the deadline)."""
    return LAUNCH_S + LAUNCH_MORE_S * (log2(hosts) - 1) + START_S


def payload_gbps(hosts: Sequence[Host]) -> float:
    """What the RNICs of the slowest host carry together, as the plan expects it."""
    return OF_LINE_RATE * (
        min(sum(rnic.line_rate_gbps for rnic in host.platform.rnics) for host in hosts) or NO_RNICS_GBPS
    )


def claims(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Every GPU and RNIC of these hosts."""
    return tuple(claim for host in hosts for claim in _claims(host))


def _claims(host: Host) -> tuple[str, ...]:
    parts = [gpu.name for gpu in host.platform.gpus] + [rnic.device for rnic in host.platform.rnics]
    return tuple(f"{host.name}/{part}" for part in parts)


class AllReduceSpec(CollectiveSpec):
    """
    An all-reduce over several hosts (all_reduce_perf, started by mpirun or srun).

    *algorithm* defaults to RING: on two hosts NCCL would pick Tree or NVLSTree, whose bus bandwidth exceeds the
    network's bottleneck and can hide a slow rail (facts: nccl-tests #290, #196).
    """

    op: ClassVar[str] = "all_reduce"

    algorithm: Algorithm = "RING"
    launcher: Launcher = "mpirun"

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """How many take part in each probe where each of so many *hosts* has so many *gpus*."""
        raise NotImplementedError

    def uses(self, platform: Platform) -> Uses | None:
        """The program and its launcher, where there are GPUs."""
        if not platform.gpus:
            return None
        return Uses((f"{self.op}_perf", self.launcher), gpudirect=True, pinned_bytes=NCCL_PINNED_BYTES)

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """That of the largest size and all ranks."""
        ranks = self.ranks(len(platform.gpus), hosts=hosts)
        joined = NVLINK if platform.nvlink_domain == "rack" and dict(platform.env).get(MNNVL) != "0" else None
        yield LimitKey(
            self.kind, link_class=joined, size_bytes=self.sizes_bytes[-1], ranks=ranks, algorithm=self.algorithm
        )

    def probes(self, hosts: Sequence[Host], *, phase: str, label: str, **params: ParamValue) -> Iterator[Probe]:
        """The all-reduce over *hosts* in this order, as often as it is repeated; *label* says which, in its id."""
        gbps = self.planned_gbps(hosts)
        over_nvlink = joined_by_nvlink(hosts) and dict(hosts[0].platform.env).get(MNNVL) != "0"
        own: dict[str, ParamValue] = {"link_class": NVLINK} if over_nvlink else {}
        for name, series in repeated(self.name, self.repeat):
            yield Probe(
                probe_id=f"{phase}/{label}/{name}",
                kind=self.kind,
                phase=phase,
                hosts=tuple(host.name for host in hosts),
                claims=claims(hosts),
                duration_s=start_s(len(hosts)) + transfer_s(self.sizes_bytes, self.iterations, gbps=gbps),
                params={
                    "ranks": sum(len(host.platform.gpus) for host in hosts),
                    "sizes_bytes": self.sizes_bytes,
                    "iterations": self.iterations,
                    **({"algorithm": self.algorithm} if self.op == "all_reduce" else {}),
                    "launcher": self.launcher,
                    "series": f"{label}/{series}",
                    "name": self.name,
                    **own,
                    **params,
                },
            )

    def planned_gbps(self, hosts: Sequence[Host]) -> float:
        """Algorithm bandwidth that the plan expects: of a ring, for each byte crosses 2 (n - 1) / n times."""
        ranks = max(2, sum(len(host.platform.gpus) for host in hosts))
        return payload_gbps(hosts) * ranks / (2 * (ranks - 1))

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """The program, one process a GPU, launched from the first host; hosts know each other by inventory name."""
        hosts = tuple((name, len(topology.hosts[name].platform.gpus)) for name in probe.hosts)
        platform = topology.hosts[probe.hosts[0]].platform
        env = environment(
            probe,
            platform,
            **({"NCCL_ALGO": str(probe.params["algorithm"])} if "algorithm" in probe.params else {}),
            # "=" asks for exact names: without it mlx5_1 also selects mlx5_10.
            NCCL_IB_HCA="=" + ",".join(f"{rnic.device}:{rnic.port}" for rnic in platform.rnics),
        )
        words = argv(probe, platform, op=cls.op)
        if probe.params["launcher"] == "srun":
            options, start = platform.srun_options, launch.srun
        else:
            options, start = platform.mpirun_options, launch.mpirun
        launcher = platform.program(str(probe.params["launcher"]))
        launched = start(words, hosts=hosts, env=env, launcher_path=launcher, options=options)
        cap_bytes = MIB + BYTES_PER_RANK * int_param(probe, "ranks")
        deadline_s = timeout_s(probe, start_s=start_s(len(probe.hosts)))
        client = Command(host=probe.hosts[0], argv=launched, timeout_s=deadline_s, output_cap_bytes=cap_bytes)
        return ProbeCommands(servers=(), client=client)

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Bus bandwidth per size, out of place and in place, or why there is none."""
        return read_busbw(probe, answered, op=cls.op)
