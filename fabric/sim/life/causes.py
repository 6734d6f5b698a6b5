"""What makes hosts fail, how often which, and what the rack does wrong then."""

from __future__ import annotations

from dataclasses import dataclass


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


CAUSES = (
    Cause("IB link down", 20.0, "rnic", "broken", 300.0, with_gpu=0.02),
    Cause("IB link errors", 15.0, "rnic", "bit_errors", 900.0, 1e-6, with_gpu=0.02),
    Cause("filesystem mount", 25.0, "host", "hanging", 600.0),
    Cause("GPU memory", 22.0, "gpu", "broken", 3600.0),
    Cause("PCIe", 18.0, "pcie", "slow", 3600.0, 0.5, with_gpu=0.43),
)
"""
Meta's RSC-1 (arXiv 2410.21680), which names its largest causes in this order and how often GPUs fail with them.

The weights are a choice in that order, for the paper's figure is not in its text; so are all durations. RSC-1 has
6.50e-3 failures a host and day.
"""
