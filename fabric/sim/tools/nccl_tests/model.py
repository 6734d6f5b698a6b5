"""How fast a collective is, and how patient: NVLink inside a host, rails between hosts, latency, timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, inf, log2

# What NCCL gets out of NVLink inside one host, bus bandwidth over the NVLink rate of one GPU and direction.
# all-reduce with NVLS: 465 of 450 GB/s (H100, Azure NHC accepts 460); A100 has none: 230 of 300 (Azure NHC 228).
# alltoall: 8 GiB at 340 GB/s on H100 and 231 on A100; the others 350 (recorded 4-GPU H100 run, sizes from 8 GiB).
# all-reduce over rings: 367 of 450 recorded there.
_ALL_REDUCE = {"a100": 232 / 300, "h100": 465 / 450, "b200": 465 / 450}
_OTHERS = {
    "alltoall": {"a100": 232 / 300, "h100": 342 / 450, "b200": 342 / 450},
    "all_gather": {"a100": 232 / 300, "h100": 355 / 450, "b200": 355 / 450},
}
_RING = {"a100": 232 / 300, "h100": 370 / 450, "b200": 370 / 450}

RAIL_RATIO = 0.966
"""A ring's bus bandwidth per rail over what the RNIC carries: 46 to 48 GB/s of 400 Gb/s (nccl-tests issue 290)."""

# NCCL's own tuner numbers (nccl src/graph/tuning.cc), microseconds.
_BASE_US, _NVLINK_RING_US, _NVLINK_TREE_US, _NET_US, _PLATEAU = 8.4, 3.4, 4.0, 14.0, 1.4

OPERATIONS = ("alltoall", "all_reduce", "all_gather", "reduce_scatter", "sendrecv", "broadcast")


@dataclass(frozen=True, slots=True)
class Ranks:
    """How many GPUs take part, on how many hosts."""

    gpus: int
    hosts: int

    @property
    def per_host(self) -> int:
        """GPUs on one host; the most, when hosts differ."""
        return -(-self.gpus // self.hosts)


def bus_factor(operation: str, gpus: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests doc/PERFORMANCE.md)."""
    if operation == "all_reduce":
        return 2 * (gpus - 1) / gpus
    if operation in ("alltoall", "all_gather", "reduce_scatter"):
        return (gpus - 1) / gpus
    return 1.0


def is_tree(operation: str, ranks: Ranks, *, algorithm: str) -> bool:
    """Between hosts NCCL takes a tree for all-reduce unless told to take rings (see design.md, traps)."""
    return operation == "all_reduce" and ranks.hosts > 1 and "RING" not in algorithm.upper()


def nvlink_ratio(operation: str, generation: str, *, rings: bool) -> float:
    """Bus bandwidth inside a host over one GPU's NVLink rate."""
    if operation == "all_reduce":
        return (_RING if rings else _ALL_REDUCE)[generation]
    return _OTHERS["alltoall" if operation == "alltoall" else "all_gather"][generation]


def rail_weight(operation: str, ranks: Ranks, *, rails: int, tree: bool) -> float:
    """
    Bus bandwidth over what one RNIC carries, when all *rails* carry the same.

    Rings cross a host's edge once over all rails together. With a tree on two hosts each byte crosses once each way
    while the bus bandwidth counts it nearly twice, so a slow rail hides. In an all-to-all a GPU sends only the part
    for other hosts over its RNIC (16 GPUs on 2 hosts: 91.8 GB/s recorded, this gives 90). A sendrecv chain has one
    GPU per host that crosses the edge.
    """
    if operation == "alltoall":
        off_host = ranks.gpus - ranks.per_host
        return RAIL_RATIO * (ranks.gpus - 1) / max(1, off_host) * rails / ranks.per_host
    if operation == "sendrecv":
        return RAIL_RATIO
    crossing = bus_factor("all_reduce", ranks.gpus) if tree and ranks.hosts == 2 else 1.0
    return RAIL_RATIO * rails * crossing


def latency_us(operation: str, ranks: Ranks, *, tree: bool) -> float:
    """What a collective takes however small it is."""
    gpus, hosts = ranks.gpus, ranks.hosts
    if operation == "all_reduce" and tree:
        return _BASE_US + 2 * ((ranks.per_host - 1) * _NVLINK_TREE_US + floor(log2(hosts)) * _NET_US)
    if operation == "all_reduce":
        ring_us = _BASE_US + 2 * (gpus - hosts) * _NVLINK_RING_US
        return ring_us if hosts == 1 else (ring_us + 2 * (hosts - 1) * _NET_US) * _PLATEAU
    if operation == "sendrecv":
        return _BASE_US + (_NET_US if hosts > 1 else _NVLINK_RING_US)
    return _BASE_US + (gpus - hosts) * _NVLINK_RING_US + (hosts - 1) * _NET_US


BASE_TIMEOUT_S = 4.096e-6
"""Unit of the RC ack timeout: T = 4.096 us * 2^t (InfiniBand architecture; the timeout of ``ibv_modify_qp``)."""

NCCL_TIMEOUT = 20
"""NCCL_IB_TIMEOUT when not set (nccl src/transport/net_ib/connect.cc); older versions took 18, before that 14."""

NCCL_RETRY = 7
"""NCCL_IB_RETRY_CNT when not set (same place)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a reliable connection waits: ack timeout exponent and retries."""

    timeout: int = NCCL_TIMEOUT
    retry: int = NCCL_RETRY


def rc_timeout_s(t: int) -> float:
    """
    How long one try waits for its ack, T = 4.096 us * 2^t: t = 14 is 67 ms, 18 1.07 s, 20 4.29 s, 22 17.2 s.

    0 means for ever. The specification lets an RNIC take up to four times as long; this is the shortest.
    """
    if not 0 <= t <= 31:
        raise ValueError(f"timeout exponent {t} is not between 0 and 31 (it has 5 bits)")
    return BASE_TIMEOUT_S * 2.0**t if t else inf


def abort_window_s(t: int, retry: int) -> float:
    """How long packets may vanish before the queue pair fails, W = T * (retry + 1): 34.4 s by NCCL's defaults."""
    if not 0 <= retry <= 7:
        raise ValueError(f"retry count {retry} is not between 0 and 7 (it has 3 bits)")
    return rc_timeout_s(t) * (retry + 1)


def stall_s(down_s: float, t: int = NCCL_TIMEOUT) -> float:
    """
    How long a flow stands still when its packets vanish for *down_s*, if it survives.

    Quantised: it moves on only when a retry meets a working path, ceil(d/T)*T; 0.1 s costs 4.3 s at t = 20, 5 s cost
    8.6 s. With t = 0 there is no retry, and so no end.
    """
    if not down_s >= 0.0:
        raise ValueError(f"an outage of {down_s!r} s is not 0 or more")
    if down_s == 0.0:
        return 0.0
    timeout_s = rc_timeout_s(t)
    return inf if inf in (timeout_s, down_s) else max(1, ceil(down_s / timeout_s)) * timeout_s


def patience_of(env: Mapping[str, str]) -> Patience:
    """NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT; what is no such number counts as not set."""
    timeout = _bounded(env.get("NCCL_IB_TIMEOUT"), NCCL_TIMEOUT, most=31)
    return Patience(timeout, _bounded(env.get("NCCL_IB_RETRY_CNT"), NCCL_RETRY, most=7))


def _bounded(value: str | None, default: int, *, most: int) -> int:
    number = None if value is None or not value.isascii() or not value.isdigit() else int(value[:9])
    return default if number is None or number > most else number
