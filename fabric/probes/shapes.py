"""What several kinds of probe share: their keys, repetitions, claims, and probes that stay inside one host."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from fabric.model.command import GIB
from fabric.model.fields.scalars import SAFE_NAME, Choice, Duration, Size, Whole, geometric
from fabric.model.probe import ParamValue, Probe
from fabric.model.recorded import ALGORITHMS
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Gpu, Platform, Rnic, Topology

Name = Annotated[str, SAFE_NAME, Field(description="Its name in ids and reports; the kind when left out.")]
Repeat = Annotated[int, Whole(1, 1000), Field(description="How often each measurement is made.")]
Seed = Annotated[int, Whole(0, 2**32 - 1), Field(description="What a random order is drawn with.")]

MessageSize = Annotated[
    int, Size(1, GIB), Field(validation_alias="size", description="Message size (ib_write_bw --size).")
]
Seconds = Annotated[
    int, Duration(1, 3600), Field(validation_alias="duration", description="How long each pair is measured.")
]
QueuePairs = Annotated[int, Whole(1, 1024), Field(description="Queue pairs of each measurement.")]

Sizes = Annotated[
    tuple[Annotated[int, Size(1 << 10, 256 * GIB)], ...],
    AfterValidator(geometric),
    Field(
        validation_alias="sizes",
        min_length=1,
        max_length=30,
        description="Message sizes, each the same whole multiple of the one before.",
    ),
]
Iterations = Annotated[int, Whole(1, 10_000), Field(description="Iterations of each size (nccl-tests -n).")]
Algorithm = Annotated[
    str,
    Choice(ALGORITHMS),
    Field(description="NCCL_ALGO. RING judges the network; others can exceed it on two hosts."),
]
Launcher = Annotated[str, Choice(("mpirun", "srun")), Field(description="What starts the ranks: mpirun or srun.")]


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


def through_switch(part: Rnic | Gpu, *ways: str) -> tuple[str, ...]:
    """
    Claims on the uplink of the PCIe switch that a part hangs off, in these directions; none without a switch.

    ``down``: what is read from memory, as by a sender; ``up``: what is written to it, as by a receiver.
    """
    return () if part.pcie_switch is None else tuple(f"{part.pcie_switch}:{way}" for way in ways)


def int_param(probe: Probe, name: str) -> int:
    """A whole-number parameter of a probe; raises TypeError when it is not one."""
    value = probe.params[name]
    if not isinstance(value, int):
        raise TypeError(f"{probe.probe_id}: {name} is {value!r}, not a whole number")
    return value


def numbers_param(probe: Probe, name: str) -> tuple[int, ...]:
    """A parameter of a probe that is several whole numbers; raises TypeError when it is not."""
    value = probe.params[name]
    if not isinstance(value, tuple):
        raise TypeError(f"{probe.probe_id}: {name} is {value!r}, not a tuple")
    return value
