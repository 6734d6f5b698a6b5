"""
NCCL's own tuning numbers (nccl 5067397c, src/graph/tuning.cc): microseconds, and GB/s per channel.

Every row of three is LL, LL128, Simple for latencies, and one, two, more hosts for bandwidths.
"""

from __future__ import annotations

from types import MappingProxyType

PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's wire protocols, in the order of its tables."""

Row = tuple[float, float, float]

BASE_US: MappingProxyType[str, Row] = MappingProxyType({"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)})
"""baseLatencies."""

NVLINK_US: MappingProxyType[str, Row] = MappingProxyType({"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)})
"""hwLatencies, one step over NVLink."""

NET_US: MappingProxyType[str, Row] = MappingProxyType({"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)})
"""hwLatencies, one step over the network."""

NVLS_US = 25.0
"""hwLatencies of NVLS and NVLSTree, NVLink."""

NVLS_TREE_NET_US = 20.9
"""hwLatencies of NVLSTree, one step over the network."""

NET_OVERHEAD_US = MappingProxyType({"intel": 1.0, "amd": 2.0})
"""getNetOverhead: posting one network operation, by CPU vendor; the Simple protocol pays it three times."""

PLATEAU = 1.4
"""Ring/Simple all-reduce between hosts from 64 bytes per rank and channel: latency times this (1.9 before Ampere)."""

PLATEAU_BYTES = 64

GENERATIONS = ("ampere", "hopper", "blackwell")
"""GPU generations with numbers here."""

LL_MAX_GBYTES: MappingProxyType[str, Row] = MappingProxyType(
    {
        "ampere": (87.7, 22.5, 19.0),
        "hopper": (141.0, 45.0, 35.0),
        "blackwell": (282.0, 90.0, 70.0),
        "intel": (39.0, 39.0, 20.4),
        "amd": (87.7, 22.5, 19.0),
    }
)
"""llMaxBws: by GPU generation on one host, by CPU vendor on more; not per channel."""

RING_LL128_GBYTES: MappingProxyType[str, Row] = MappingProxyType(
    {"ampere": (20.0, 20.0, 20.0), "hopper": (36.7, 36.7, 36.7), "blackwell": (40.0, 40.0, 40.0)}
)
"""perChMaxRingLL128Bws."""

TREE_LL128_GBYTES: MappingProxyType[str, Row] = MappingProxyType(
    {"ampere": (20.0, 20.0, 20.0), "hopper": (36.7, 36.7, 29.0), "blackwell": (55.6, 31.67, 20.0)}
)
"""perChMaxTreeLL128Bws."""

TREE_GBYTES: MappingProxyType[str, Row] = MappingProxyType(
    {"ampere": (24.0, 23.6, 17.8), "hopper": (38.7, 41.4, 36.0), "blackwell": (70.0, 42.8, 24.0)}
)
"""perChMaxTreeBws."""

NVLS_TREE_GBYTES: MappingProxyType[str, Row] = MappingProxyType(
    {"ampere": (0.0, 0.0, 0.0), "hopper": (0.0, 57.7, 45.5), "blackwell": (0.0, 96.0, 80.0)}
)
"""perChMaxNVLSTreeBws; Ampere has no NVLS, so nothing stands for it."""

LL128_EFFICIENCY = 0.92
"""Data in what LL128 sends: 120 of 128 bytes, and a little lost."""

TREE_EFFICIENCY = 0.92

TREE_PATTERN = 0.85
"""Trees whose two halves meet on the same GPU (NCCL_TOPO_PATTERN_TREE), the usual pattern with NVSwitch."""

TREE_CORRECTION = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)
"""treeCorrectionFactor: of a tree's bandwidth, by protocol and by the power of two of the size from 64 bytes."""
