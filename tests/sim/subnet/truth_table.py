"""
What adaptive routing, SHIELD and the subnet manager do after a fault on one link, and when.

================================  =========================  =============================  =========================
fault                             AR off, SHIELD off         AR off, SHIELD on              AR on
================================  =========================  =============================  =========================
trunk up, bit errors              flows on it degraded       same                           traffic moves away
trunk down or flapping            black hole until the SM    another port in milliseconds   moves away at once
access link (RNIC to leaf) down   stall, abort after window  same                           same: there is no other path
================================  =========================  =============================  =========================

SHIELD acts only on a port that is not Armed or Active, so a link that stays up with bit errors is none of its business
(NVIDIA, InfiniBand Cluster Bring-up Procedure, SHIELD; Meta, arXiv 2410.21680, 5.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf

from fabric.sim.tools.nccl_tests.model import NCCL_RETRY, NCCL_TIMEOUT, abort_window_s, stall_s

KINDS = ("ber", "down", "flap")
"""Bit errors on a link that stays up; a link that goes down and stays down; one that comes back."""

TIERS = ("access", "trunk")
"""The cable of an RNIC, with no other path; or one of several parallel cables between switches."""


class State(Enum):
    """What the flows that used the faulty link meet."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"  # still on the link: its bit errors are theirs
    BLACK_HOLE = "black hole"  # sent into the dead port
    WAITING = "waiting"  # there is a path again; the transport still waits for its timer
    SHIELDED = "shielded"  # the switch moved all of the port's routes to one other port
    REROUTED = "rerouted"  # the subnet manager spread them over the ports that are left
    BALANCED = "balanced"  # adaptive routing: every flow of the trunk shares what is left
    FAILED_OVER = "failed over"  # the host's other ports carry it
    ABORTED = "aborted"  # the transport gave up; the job ends


@dataclass(frozen=True)
class Patience:
    """How a reliable connection waits: ack timeout exponent and retries."""

    timeout: int = NCCL_TIMEOUT
    retry: int = NCCL_RETRY


@dataclass(frozen=True, slots=True)
class LinkFault:
    """One fault on one link, from *start_s* for *duration_s* (infinite: it stays)."""

    kind: str
    tier: str
    start_s: float = 0.0
    duration_s: float = inf

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no fault {self.kind!r}; there are {', '.join(KINDS)}")
        if self.tier not in TIERS:
            raise ValueError(f"there is no tier {self.tier!r}; there are {', '.join(TIERS)}")
        if not 0.0 <= self.start_s < inf or not self.duration_s > 0.0:
            raise ValueError(f"a fault from {self.start_s!r} s for {self.duration_s!r} s is not in time")
        if self.kind == "flap" and self.duration_s == inf:
            raise ValueError("a flap comes back: its duration_s must be finite")


@dataclass(frozen=True, slots=True)
class Reaction:
    """
    What is switched on, and how fast it is.

    SHIELD: milliseconds; the vendor says 5,000 times faster than the SM, no number is published. SM: 10 to 20 s on
    very large fabrics (enterpriseai.news, 2017), 0.5 s on 560 LIDs. AR: the next packet. *failover* is NCCL's port
    failover (NCCL_IB_RESILIENCY_PORT_FAILOVER, off by default) or a dual-homed RNIC.
    """

    ar: bool = False
    shield: bool = False
    failover: bool = False
    t_ar_s: float = 0.0
    t_shield_s: float = 3e-3
    t_sm_s: float = 15.0
    t_failover_s: float = 0.0

    def __post_init__(self) -> None:
        times = (self.t_ar_s, self.t_shield_s, self.t_sm_s, self.t_failover_s)
        if not all(time_s >= 0.0 for time_s in times):
            raise ValueError(f"reaction times {times} are not all 0 or more")


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time in which nothing changes for the flows that used the faulty link."""

    start_s: float
    end_s: float
    state: State


def phases(
    fault: LinkFault, reaction: Reaction, *, patience: Patience | None = None, horizon_s: float = inf
) -> tuple[Phase, ...]:
    """
    From 0 to *horizon_s*, what the flows on the faulty link meet, without gaps.

    With *patience* as a flow lives it: after a black hole it waits for its ack timer, or has given up. Without, as the
    network is.
    """
    ends = [(0.0, State.HEALTHY)]  # (from when, what)
    ends += [(fault.start_s + after_s, state) for after_s, state in _network(fault, reaction)]
    if patience is not None:
        ends = list(_as_lived(ends, patience))
    found = []
    for (start_s, state), (end_s, _) in zip(ends, [*ends[1:], (inf, State.HEALTHY)], strict=True):
        if start_s < min(end_s, horizon_s):
            found.append(Phase(start_s, min(end_s, horizon_s), state))
    return tuple(found)


def _network(fault: LinkFault, reaction: Reaction) -> Iterator[tuple[float, State]]:
    """Seconds after the fault, and what its flows meet from then on, as the network is."""
    over_s = fault.duration_s
    if fault.tier == "access":
        yield from _access(fault, reaction)
    elif reaction.ar:
        yield 0.0, State.DEGRADED if fault.kind == "ber" else State.BLACK_HOLE
        yield min(reaction.t_ar_s, over_s), State.BALANCED
    elif fault.kind == "ber":
        yield 0.0, State.DEGRADED
    else:
        yield 0.0, State.BLACK_HOLE
        if reaction.shield and reaction.t_shield_s < min(over_s, reaction.t_sm_s):
            yield reaction.t_shield_s, State.SHIELDED
        if reaction.t_sm_s < over_s:
            yield reaction.t_sm_s, State.REROUTED
            over_s += reaction.t_sm_s  # the SM also has to find out that the link is back
    yield over_s, State.HEALTHY


def _access(fault: LinkFault, reaction: Reaction) -> Iterator[tuple[float, State]]:
    """Neither AR nor SHIELD has another path; only another port of the host can help."""
    if fault.kind == "ber":
        yield 0.0, State.DEGRADED
        return
    yield 0.0, State.BLACK_HOLE
    if reaction.failover and reaction.t_failover_s < fault.duration_s:
        yield reaction.t_failover_s, State.FAILED_OVER


def _as_lived(ends: list[tuple[float, State]], patience: Patience) -> Iterator[tuple[float, State]]:
    """Add what the transport makes of the black hole: the wait for the ack timer, or the end."""
    window_s = abort_window_s(patience.timeout, patience.retry)
    resumes_s = 0.0
    for (start_s, state), (end_s, _) in zip(ends, [*ends[1:], (inf, State.HEALTHY)], strict=True):
        if state is State.BLACK_HOLE and end_s - start_s >= window_s:
            yield start_s, state
            yield start_s + window_s, State.ABORTED
            return
        if state is State.BLACK_HOLE:
            yield start_s, state
            resumes_s = start_s + stall_s(end_s - start_s, patience.timeout)
            if end_s < resumes_s:
                yield end_s, State.WAITING
        elif end_s > resumes_s:
            yield max(start_s, resumes_s), state
