"""Probes that stay inside one host: described once per platform, then given to every host of that make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.model.probe import ParamValue, Probe
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Gpu, Platform, Rnic, Topology


@dataclass(frozen=True, slots=True)
class HostProbe:
    """One probe of a host layout: its label, its claims within the host, its parameters (shared by all hosts)."""

    label: str
    claims: tuple[str, ...]
    duration_s: float
    params: Mapping[str, ParamValue]


class InHost(ProbeSpec):
    """Probes of one host each."""

    def layout(self, platform: Platform, ports: Iterator[int]) -> Iterator[HostProbe]:
        """What runs on a host of a given make; each of *ports* is given once."""
        raise NotImplementedError

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Every host has the probes of its platform; ids read ``intra-host/gpu001/loopback.mlx5_0.numa1``."""
        layouts: dict[str, list[HostProbe]] = {}
        for host_name in hosts:
            platform = topology.hosts[host_name].platform
            if platform.name not in layouts:
                layouts[platform.name] = list(self.layout(platform, ports))
            alone = (host_name,)
            known: dict[str, str] = {}
            for host_probe in layouts[platform.name]:
                claims = tuple([known.setdefault(claim, f"{host_name}/{claim}") for claim in host_probe.claims])
                yield Probe(
                    probe_id=f"{phase}/{host_name}/{self.name}.{host_probe.label}",
                    kind=self.kind,
                    phase=phase,
                    hosts=alone,
                    claims=claims,
                    duration_s=host_probe.duration_s,
                    params=host_probe.params,
                )


def repeated(label: str, repeat: int) -> Iterator[tuple[str, str]]:
    """Label and series of each repetition; a probe that is not repeated keeps its plain label."""
    if repeat == 1:
        yield label, label
        return
    for number in range(1, repeat + 1):
        yield f"{label}.r{number}", label


def both_ways(part: Rnic | Gpu) -> tuple[str, ...]:
    """Claims on the uplink of the PCIe switch that a part hangs off, both directions; none without a switch."""
    if part.pcie_switch is None:
        return ()
    return (f"{part.pcie_switch}:up", f"{part.pcie_switch}:down")
