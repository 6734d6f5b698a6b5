"""One all-to-all over many hosts: every link between leaves at once, which is what a bisection is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from fabric.model.fields.entry import NotInFiles
from fabric.model.topology import Host
from fabric.probes.collective import payload_gbps
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.shapes import Name


class GroupAllToAllSpec(GroupAllReduceSpec):
    """
    One all-to-all over many hosts (alltoall_perf), with the keys of ``group_all_reduce`` but the algorithm.

    Each GPU sends to every other; with rails, NCCL hands bytes to the GPU on the receiver's rail first (PXN), so that
    they stay on it.
    """

    kind: ClassVar[str] = "group_all_to_all"
    op: ClassVar[str] = "alltoall"

    name: Name = kind
    algorithm: Annotated[str, NotInFiles()] = ""

    def planned_gbps(self, hosts: Sequence[Host]) -> float:
        """Algorithm bandwidth that the plan expects: what a GPU's part of the RNICs carries to other hosts."""
        ranks = max(2, sum(len(host.platform.gpus) for host in hosts))
        each = max(1, ranks // len(hosts))
        return payload_gbps(hosts) / each * ranks / max(1, ranks - each)
