"""Collectives over more than two hosts, as fast as NCCL's own tuner would have them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabric.sim.collective_model import Ranks
from fabric.sim.nccl_tuning import A100, ALGORITHMS, H100, Job, Platform, choice

B200 = replace(
    H100, generation="blackwell", nvlink_gbps=7200.0, ring_gbps=5920.0, nvls_gbps=7440.0, alltoall_gbps=5472.0
)
"""Choice: the shares of NVLink that H100 reaches."""

_PLATFORMS = {"a100": A100, "h100": H100, "b200": B200}
_NAMES = {"RING": "ring", "TREE": "tree", "NVLS": "nvls_tree", "NVLSTREE": "nvls_tree"}


@dataclass(frozen=True, slots=True)
class Tuning:
    """Which algorithms may be chosen for these ranks, and what their hosts are."""

    ranks: Ranks
    platform: Platform
    algorithms: tuple[str, ...]

    def time_us(self, size_bytes: int, bus_gbps: float) -> float:
        """One all-reduce, where rings of very large messages would reach *bus_gbps*."""
        job = Job(self.ranks.gpus, self.ranks.hosts, bus_gbps, replace(self.platform, nics_per_host=1))
        return choice("all_reduce", size_bytes, job=job, algorithms=self.algorithms).time_s * 1e6


def tuning_of(operation: str, ranks: Ranks, *, generation: str, algorithm: str) -> Tuning | None:
    """
    How NCCL chooses; None for anything but an all-reduce over more than two hosts.

    One or two hosts stay with ``collective_model``, which was fitted to recorded runs of those. *algorithm* is
    NCCL_ALGO; what needs switches that reduce (CollNet) is as if it were not there.
    """
    if operation != "all_reduce" or ranks.hosts < 3:
        return None
    asked = tuple(dict.fromkeys(_NAMES[word] for word in algorithm.upper().split(",") if word in _NAMES))
    platform = _PLATFORMS[generation]
    usable = asked if platform.nvls_gbps > 0 else tuple(name for name in asked if name != "nvls_tree")
    return Tuning(ranks, platform, usable or ALGORITHMS)
