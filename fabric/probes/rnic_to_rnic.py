"""
RNIC to RNIC inside one host: every ordered pair, out to the ToR and back.

MegaScale (arXiv 2402.15627, 4.3): do the RNICs meet their specification, and is the routing right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from fabric.model.command import Command
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import LimitKey
from fabric.model.topology import Platform, Rnic, Topology
from fabric.probes.intra_host import HostProbe, repeated, spread
from fabric.probes.keys import Name, QueuePairs
from fabric.probes.perftest_pair import SETUP_S, PerftestSpec, command, ends_of, read_bandwidth


class RnicToRnicSpec(PerftestSpec):
    """Every ordered pair of RNICs of one host (ib_write_bw)."""

    kind: ClassVar[str] = "rnic_to_rnic"
    needs: ClassVar[str] = "two RNICs"
    alone: ClassVar[bool] = True
    peers: ClassVar[bool] = True

    name: Name = kind
    queue_pairs: QueuePairs = 2

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """One, where there are two RNICs."""
        return iter([LimitKey(self.kind, size_bytes=self.size_bytes)] if len(platform.rnics) > 1 else ())

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Every ordered pair of RNICs of every host: 8 x 7 = 56."""

        def layout(platform: Platform) -> list[HostProbe]:
            return [
                HostProbe(
                    label=label,
                    claims=_claims(source, target),
                    duration_s=self.duration_s + SETUP_S,
                    params={
                        "rnic": source.device,
                        "peer_rnic": target.device,
                        "size_bytes": self.size_bytes,
                        "duration_s": self.duration_s,
                        "queue_pairs": self.queue_pairs,
                        "port": next(ports),
                        "series": series,
                    },
                )
                for source in platform.rnics
                for target in platform.rnics
                if source != target
                for label, series in repeated(f"{source.device}.{target.device}", self.repeat)
            ]

        return spread(layout, kind=self.kind, prefix=f"{phase}/{self.name}", topology=topology, hosts=hosts)

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """The server on the receiving RNIC, the client on the sending one, each with memory next to it."""
        host = topology.hosts[probe.hosts[0]]
        source = host.platform.rnic_by_device[str(probe.params["rnic"])]
        target = host.platform.rnic_by_device[str(probe.params["peer_rnic"])]

        def side(rnic: Rnic, peer: str | None) -> Command:
            return command(probe, host.platform, rnic=rnic, peer=peer, cuda_gpu=None, numa_node=rnic.numa)

        return ProbeCommands(servers=(side(target, None),), client=side(source, "127.0.0.1"))

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """The average bandwidth, or why there is none."""
        return read_bandwidth(probe, topology, answered, devices=ends_of(probe))


def _claims(source: Rnic, target: Rnic) -> tuple[str, ...]:
    # The sender reads memory (its switch's uplink downwards), the receiver writes memory (upwards).
    claims = [source.device, target.device]
    if source.pcie_switch is not None:
        claims.append(f"{source.pcie_switch}:down")
    if target.pcie_switch is not None:
        claims.append(f"{target.pcie_switch}:up")
    return tuple(claims)
