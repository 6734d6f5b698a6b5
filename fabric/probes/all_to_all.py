"""All-to-all among the GPUs of one host (MegaScale 4.3), as a whole and in halves.

A collective yields one number for all its GPUs. Splitting the GPUs by each bit of their number gives complementary
halves that run at the same time; one slow GPU is in the slow half of every split, and can so be named.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from fabric.model.fields.scalars import Flag
from fabric.model.probe import Command, Probe, ProbeCommands
from fabric.model.scenario import LimitKey, Uses
from fabric.model.topology import Platform, Topology
from fabric.probes.collective import START_S, CollectiveSpec, environment, timeout_s, transfer_s
from fabric.probes.shapes import InHost, Inside, Name, numbers_param

PLANNED_GBPS = 2500.0
"""Algorithm bandwidth that the plan expects; a choice: a little less than an H100 host that just meets its limit."""


class AllToAllSpec(InHost, CollectiveSpec):
    """
    All-to-all among the GPUs of one host (alltoall_perf).

    With *halves* also among complementary halves of the GPUs, one split per bit of the GPU number.
    """

    kind: ClassVar[str] = "all_to_all"
    needs: ClassVar[str] = "two GPUs"
    op: ClassVar[str] = "alltoall"
    served: ClassVar[bool] = False  # one process drives all GPUs
    alone: ClassVar[bool] = True
    peers: ClassVar[bool] = True

    name: Name = kind
    halves: Annotated[bool, Flag()] = True
    """Whether halves of the GPUs are measured too, so that one slow GPU can be named."""

    def uses(self, platform: Platform) -> Uses | None:
        """Return its one program, if there are two GPUs."""
        return Uses(("alltoall_perf",)) if len(platform.gpus) > 1 else None

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield the key for all GPUs of the host."""
        gpus = len(platform.gpus)
        return iter([LimitKey(self.kind, size_bytes=self.sizes_bytes[-1], ranks=gpus)] if gpus > 1 else ())

    @property
    def expected_s(self) -> float:
        """Return the time of the start and all passes."""
        return START_S + transfer_s(self.sizes_bytes, self.iterations, gbps=PLANNED_GBPS)

    def layout(self, platform: Platform) -> Iterator[Inside]:
        """Yield the whole host, then its halves: 1 + 6 on 8 GPUs."""
        for label, gpus in groups([gpu.index for gpu in platform.gpus], halves=self.halves):
            yield label, tuple(f"gpu{index}" for index in gpus), {"gpus": gpus, "ranks": len(gpus), **self.load}

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """Return alltoall_perf in one process that sees only the group's GPUs."""
        platform = topology.hosts[probe.hosts[0]].platform
        visible = "HIP_VISIBLE_DEVICES" if platform.amd else "CUDA_VISIBLE_DEVICES"
        gpus = ",".join(map(str, numbers_param(probe, "gpus")))
        env = tuple(environment(probe, platform, **{visible: gpus}).items())
        deadline_s = timeout_s(probe, start_s=START_S)
        return ProbeCommands((), Command(probe.hosts[0], cls.argv(probe, platform), deadline_s, env))


def groups(indexes: Sequence[int], *, halves: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield label and GPUs of each group; only groups of two or more can exchange anything."""
    if len(indexes) > 1:
        yield "all", tuple(indexes)
    if not halves or len(indexes) < 4:
        return
    for bit in range((len(indexes) - 1).bit_length()):
        for side in (0, 1):
            half = tuple(index for position, index in enumerate(indexes) if position >> bit & 1 == side)
            if len(half) > 1:
                yield f"bit{bit}-{side}", half
