"""The RDMA transport's patience: how long a flow stalls when packets vanish, and when it gives up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

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
