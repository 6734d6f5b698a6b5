"""Common parts of several kinds of probe: keys, repetitions, claims, and probes that stay inside one host."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from signal import Signals
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from fabric.model.fields.scalars import SAFE_NAME, Choice, Duration, Size, Whole, geometric
from fabric.model.probe import GIB, CommandResult, NamedPart, ParamValue, Probe
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


Inside = tuple[str, tuple[str, ...], dict[str, ParamValue]]
"""A measurement inside a host: its label, its claims within the host, its parameters."""


class InHost(ProbeSpec):
    """Probes of one host each, described once per platform: all its hosts share their parameters."""

    served: ClassVar[bool] = True
    """Whether a server listens for each probe on a TCP port."""

    @property
    def expected_s(self) -> float:
        """Return the expected time of each probe."""
        raise NotImplementedError

    def layout(self, platform: Platform) -> Iterator[Inside]:
        """Yield what is measured on a host of this platform."""
        raise NotImplementedError

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield the probes of every host, by its platform; ids read ``intra-host/gpu001/loopback.mlx5_0.numa1``."""
        layouts: dict[str, list[Inside]] = {}
        expected_s = self.expected_s
        for host_name in hosts:
            platform = topology.hosts[host_name].platform
            if platform.name not in layouts:
                layouts[platform.name] = list(self._repeated(platform, ports))
            alone = (host_name,)
            known: dict[str, str] = {}
            for label, own, params in layouts[platform.name]:
                claims = tuple([known.setdefault(claim, f"{host_name}/{claim}") for claim in own])
                probe_id = f"{phase}/{host_name}/{self.name}.{label}"
                yield Probe(probe_id, self.kind, phase, alone, claims, expected_s, params)

    def _repeated(self, platform: Platform, ports: Iterator[int]) -> Iterator[Inside]:
        """Yield every measurement as often as it is repeated, each with a port of its own."""
        for name, claims, own in self.layout(platform):
            for label, series in repeated(name, self.repeat):
                port = {"port": next(ports)} if self.served else {}
                yield label, claims, {**own, **port, "series": series}


Label = tuple[str, str]
"""The label of one repetition of a measurement, and that of its series."""


def repeated(label: str, repeat: int) -> Iterator[Label]:
    """Yield label and series of each repetition; a probe that is not repeated keeps its plain label."""
    for number in range(1, repeat + 1):
        yield label if repeat == 1 else f"{label}.r{number}", label


def through_switch(part: Rnic | Gpu, *ways: str) -> tuple[str, ...]:
    """
    Return claims on the uplink of a part's PCIe switch in these directions; none without a switch.

    ``down``: data read from memory, as by a sender; ``up``: data written to it, as by a receiver.
    """
    return () if part.pcie_switch is None else tuple(f"{part.pcie_switch}:{way}" for way in ways)


def int_param(probe: Probe, name: str) -> int:
    """Return a whole-number parameter of a probe; raise TypeError if it is not one."""
    value = probe.params[name]
    if not isinstance(value, int):
        raise TypeError(f"{probe.probe_id}: {name} is {value!r}, not a whole number")
    return value


_USAGE = re.compile(r"\s*usage:", re.IGNORECASE)


def last_line(result: CommandResult) -> str:
    """Return the last line that a program printed before it gave up, or before it told how it is used."""
    for text in (result.stderr, result.stdout):
        lines = [line for line in takewhile(lambda line: not _USAGE.match(line), text.splitlines()) if line.strip()]
        if lines:
            return lines[-1].strip()[:200]
    return (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[0][:200]


def ended_by(result: CommandResult) -> str:
    """Return the name of the signal that ended a program (a shell's 128 + n), such as SIGKILL; empty if none did."""
    try:
        return Signals(result.exit_status - 128).name
    except ValueError:
        return ""


def lacking(result: CommandResult) -> NamedPart | None:
    """Name the host of a command that did not start for want of a program or a library: a shell's 127, and ld.so's."""
    return NamedPart(result.command.host, "lacking") if result.exit_status == 127 else None


def numbers_param(probe: Probe, name: str) -> tuple[int, ...]:
    """Return a parameter of a probe that is several whole numbers; raise TypeError if it is not."""
    value = probe.params[name]
    if not isinstance(value, tuple):
        raise TypeError(f"{probe.probe_id}: {name} is {value!r}, not a tuple")
    return value
