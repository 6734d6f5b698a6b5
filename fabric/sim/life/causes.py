"""What makes hosts fail, how often which, and what the rack does wrong then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Cause:
    """
    One row of a failure report.

    *weight* is relative to the other causes. *part* (``host``, ``gpu``, ``rnic``, ``pcie``) gets a fault of *kind* for
    *mean_s* on average. With probability *with_gpu* a GPU fails at the same time: it falls off the bus (XID 79).
    """

    name: str
    weight: float
    part: str
    kind: str
    mean_s: float
    factor: float = 1.0
    with_gpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Mix:
    """The failures of one fleet: how many a host has a day, and their causes."""

    per_host_day: float
    causes: tuple[Cause, ...]


def _meta(per_host_day: float, *, link_with_gpu: float, pcie_with_gpu: float) -> Mix:
    """
    A cluster of arXiv 2410.21680, which names the largest causes in this order and how often GPUs fail with them.

    The weights are a choice in that order, for the paper's figure is not in its text; so are all durations.
    """
    causes = (
        Cause("IB link down", 20.0, "rnic", "broken", 300.0, with_gpu=link_with_gpu),
        Cause("IB link errors", 15.0, "rnic", "bit_errors", 900.0, 1e-6, with_gpu=link_with_gpu),
        Cause("filesystem mount", 25.0, "host", "hanging", 600.0),
        Cause("GPU memory", 22.0, "gpu", "broken", 3600.0),
        Cause("PCIe", 18.0, "pcie", "slow", 3600.0, 0.5, with_gpu=pcie_with_gpu),
    )
    return Mix(per_host_day, causes)


# Llama 3 (arXiv 2407.21783, table 5), its counts of 54 days; durations are a choice.
_LLAMA3 = (
    Cause("faulty GPU", 148.0, "gpu", "absent", 7200.0),
    Cause("GPU HBM3 memory", 72.0, "gpu", "broken", 3600.0),
    Cause("software bug", 54.0, "host", "hanging", 300.0),
    Cause("network switch or cable", 35.0, "rnic", "broken", 1800.0),
    Cause("host maintenance", 32.0, "host", "broken", 7200.0),
    Cause("GPU SRAM memory", 19.0, "gpu", "broken", 3600.0),
    Cause("GPU system processor", 17.0, "gpu", "broken", 3600.0),
    Cause("NIC", 7.0, "rnic", "absent", 7200.0),
    Cause("NCCL watchdog timeout", 7.0, "host", "hanging", 300.0),
    Cause("silent data corruption", 6.0, "gpu", "broken", 3600.0),
    Cause("GPU thermal interface or sensor", 6.0, "gpu", "hot", 3600.0),
    Cause("SSD", 3.0, "host", "broken", 7200.0),
    Cause("power supply", 3.0, "host", "broken", 7200.0),
    Cause("server chassis", 2.0, "host", "broken", 7200.0),
    Cause("IO expansion board", 2.0, "pcie", "slow", 7200.0, 0.5),
    Cause("dependency", 2.0, "host", "hanging", 300.0),
    Cause("CPU", 2.0, "host", "broken", 7200.0),
    Cause("system memory", 2.0, "host", "broken", 7200.0),
)

MIXES: Mapping[str, Mix] = MappingProxyType(
    {
        "rsc1": _meta(6.50e-3, link_with_gpu=0.02, pcie_with_gpu=0.43),
        "rsc2": _meta(2.34e-3, link_with_gpu=0.06, pcie_with_gpu=0.63),
        "llama3": Mix(3.79e-3, _LLAMA3),
    }
)
"""Failures per node and day of Meta's RSC-1 and RSC-2 (arXiv 2410.21680), and of Llama 3's run (419 in 2048 x 54)."""
