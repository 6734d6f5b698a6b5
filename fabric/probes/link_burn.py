"""
Many RNIC-to-RNIC flows at once, in stages that load every link (ib_write_bw): a burn-in of cables and switch ports.

One probe a flow. Within a stage no RNIC sends twice or receives twice, so that a whole stage can start together;
sending and receiving are claimed apart, for an RNIC does both. The stages themselves are worked out where the phase is
planned (``fabric.plan.burn_stages``). Each stage is a part of the phase of its own: the next one begins when the last
flow of this one has ended, or links would carry what they were not planned for.

Buffers are on the nearest GPU of each RNIC, as in training: two RNICs under one PCIe switch would otherwise share its
uplink to host memory, and no link would see more than half its rate. GPUs are not claimed, as each has two flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabric.model.command import Command
from fabric.model.link_burn import BurnFlow, LinkBurnSpec
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.topology import Host, Topology
from fabric.probes.perftest_pair import SETUP_S, command, int_param, read_bandwidth

KIND = "link_burn"
NEEDS = "another RNIC in the run that a route leads to"
SOME = True

FIRST_PORT = 31_000
"""TCP ports of these probes' servers, one for each RNIC of a host: above those of ``pairwise``."""


def expand(
    spec: LinkBurnSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """A probe for each flow of each stage whose two hosts are in the run."""
    del ports
    taking_part = frozenset(hosts)
    for number, stage in enumerate(spec.stages):
        for flow in stage:
            if flow.host in taking_part and flow.peer in taking_part:
                yield _probe(spec, flow, number, phase, topology)


def stages_of(spec: LinkBurnSpec) -> Iterator[LinkBurnSpec]:
    """The same spec once for each stage, with the others empty, so that stages keep their numbers."""
    for number, stage in enumerate(spec.stages):
        yield replace(spec, stages=((),) * number + (stage,))


def _probe(spec: LinkBurnSpec, flow: BurnFlow, number: int, phase: str, topology: Topology) -> Probe:
    sender, receiver = topology.hosts[flow.host].platform, topology.hosts[flow.peer].platform
    label = f"{flow.device}.{flow.peer_device}.s{number + 1}"
    claims = [f"{flow.host}/{flow.device}:out", f"{flow.peer}/{flow.peer_device}:in"]
    return Probe(
        probe_id=f"{phase}/{flow.host}+{flow.peer}/{spec.name}.{label}",
        kind=KIND,
        phase=phase,
        hosts=(flow.host,) if flow.host == flow.peer else (flow.host, flow.peer),
        claims=tuple(claims),
        duration_s=spec.duration_s + SETUP_S,
        params={
            "rnic": flow.device,
            "peer_rnic": flow.peer_device,
            "rail": sender.rnic_by_device[flow.device].rail,
            "stage": number,
            "size_bytes": spec.size_bytes,
            "duration_s": spec.duration_s,
            "queue_pairs": spec.queue_pairs,
            "memory": spec.memory,
            "port": FIRST_PORT + receiver.rnics.index(receiver.rnic_by_device[flow.peer_device]),
            "series": f"{flow.host}+{flow.peer}/{label}",
            "name": spec.name,
        },
    )


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """The server on the receiving host, the client, which sends, on the first; hosts know each other by name."""
    sender, receiver = topology.hosts[probe.hosts[0]], topology.hosts[probe.hosts[-1]]

    def side(host: Host, device: str, peer: str | None) -> Command:
        rnic = host.platform.rnic_by_device[device]
        gpu = rnic.nearest_gpus[0] if rnic.nearest_gpus and probe.params["memory"] == "gpu" else None
        made = command(probe, host.platform, rnic=rnic, peer=peer, cuda_gpu=gpu, numa_node=rnic.numa)
        return replace(made, host=host.name)

    server = side(receiver, str(probe.params["peer_rnic"]), None)
    return ProbeCommands(servers=(server,), client=side(sender, str(probe.params["rnic"]), receiver.name))


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """The average bandwidth, or why there is none."""
    devices = (str(probe.params["peer_rnic"]), str(probe.params["rnic"]))
    return read_bandwidth(probe, topology, answered, devices=devices)


def stage_of(probe: Probe) -> int:
    """In which stage it runs, from 0."""
    return int_param(probe, "stage")
