"""
RNIC loopback: each RNIC to every memory node and every GPU of its own host.

MegaScale (arXiv 2402.15627, 4.3): a full mesh inside the host, from which slow PCIe links are inferred. Both ends are
the same RNIC, and both buffers are on the endpoint, so the path between the two is used in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.command import Command
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import LoopbackSpec
from fabric.model.topology import Endpoint, Platform, Rnic, Topology
from fabric.probes.intra_host import HostProbe, both_ways, repeated, spread
from fabric.probes.perftest_pair import SETUP_S, command, read_bandwidth

KIND = "loopback"
NEEDS = "an RNIC"
SOME = False


def expand(
    spec: LoopbackSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """Every (RNIC, endpoint) of every host: 8 x (8 + 2) = 80 on an 8-RNIC, 8-GPU, 2-NUMA host."""

    def layout(platform: Platform) -> list[HostProbe]:
        return [
            HostProbe(
                label=label,
                claims=_claims(platform, rnic, endpoint),
                duration_s=spec.duration_s + SETUP_S,
                params={
                    "rnic": rnic.device,
                    "endpoint": endpoint,
                    "link_class": platform.link_class(rnic, endpoint),
                    "size_bytes": spec.size_bytes,
                    "duration_s": spec.duration_s,
                    "queue_pairs": spec.queue_pairs,
                    "port": next(ports),
                    "series": series,
                },
            )
            for rnic in platform.rnics
            for endpoint in platform.endpoints
            for label, series in repeated(f"{rnic.device}.{endpoint}", spec.repeat)
        ]

    return spread(layout, kind=KIND, prefix=f"{phase}/{spec.name}", topology=topology, hosts=hosts)


def _claims(platform: Platform, rnic: Rnic, endpoint: Endpoint) -> tuple[str, ...]:
    gpu = platform.gpu_by_name.get(endpoint)
    alone = (rnic.device, endpoint)
    if gpu is None:
        return alone + both_ways(rnic)
    if gpu.pcie_switch is not None and gpu.pcie_switch == rnic.pcie_switch:
        return alone
    return alone + both_ways(rnic) + both_ways(gpu)


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """Server and client on the same RNIC, both with their buffers on the endpoint."""
    host = topology.hosts[probe.hosts[0]]
    rnic = host.platform.rnic_by_device[str(probe.params["rnic"])]
    endpoint = str(probe.params["endpoint"])
    gpu = host.platform.gpu_by_name.get(endpoint)
    cuda_gpu = None if gpu is None else gpu.index
    numa_node = int(endpoint.removeprefix("numa")) if gpu is None else rnic.numa

    def side(peer: str | None) -> Command:
        return command(probe, host.platform, rnic=rnic, peer=peer, cuda_gpu=cuda_gpu, numa_node=numa_node)

    return ProbeCommands(servers=(side(None),), client=side("127.0.0.1"))


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """The average bandwidth, or why there is none."""
    rnic = str(probe.params["rnic"])
    return read_bandwidth(probe, topology, answered, devices=(rnic, rnic))
