"""A fluid model, in time steps, of the queues of a RoCE fabric with ECN marks, PFC pauses and DCQCN senders.

Each directed link has a queue before it, and each flow a share of each queue on its way. A queue serves its content in
proportion (FIFO, well mixed). A switch that holds more than *xoff* of what came in over one link pauses that link, and
with it everything that waits before it, for any destination: head-of-line blocking, which spreads upstream from switch
to switch to the hosts. Rates follow the fluid equations of DCQCN as its authors integrate them: Zhu et al., "Congestion
Control for Large-Scale RDMA Deployments", SIGCOMM 2015 (equations), and "ECN or Delay", CoNEXT 2016, whose code
(jitupadhye-zz/rdma) has p and R in the sums delayed by one tau.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fabric.sim.net.clos import Bools, Floats, Ints, Links

_TAU_S: Final = 50e-6
"""Time between two CNPs of a flow, and delay until a sender hears of a mark (DCQCN 2015)."""

_ALPHA_S: Final = 55e-6
_TIMER_S: Final = 55e-6
_COUNTER_BYTES: Final = 10e6
_FAST_STEPS: Final = 5
_GAIN: Final = 1 / 256
"""tau', T, B, F and g of DCQCN 2015."""

LEAST_GBPS: Final = 0.001
"""The lowest rate that cuts reach: ``rpg_min_rate`` is 1 Mb/s."""


@dataclass(frozen=True, slots=True)
class Queues:
    """
    How switches treat waiting packets, in bytes: some are marked from *k_min*, all from *k_max*; *p_max* just below
    that.

    Defaults are what ``nv set qos roce`` of Cumulus Linux 5 sets (150,000, 1,500,000, 100 %) at any speed. A link is
    paused when *xoff* of what came over it waits, until that is 3 kB less (HPCC's simulator); the rest of the buffer is
    headroom, so nothing is dropped. Without *pfc*, what a queue holds above *xoff* is dropped. *xoff* is a choice:
    above k_max, as it must be for marks to come before pauses. *increase_gbps* is R_AI, by which a sender's target
    grows: 40 Mb/s at 40 Gb/s in DCQCN 2015.
    """

    k_min: float = 150e3
    k_max: float = 1500e3
    p_max: float = 1.0
    xoff: float = 2000e3
    packet: float = 4096.0
    increase_gbps: float = 0.04
    ecn: bool = True
    pfc: bool = True


_XON_LESS: Final = 3e3


def marking(waiting: Floats, queues: Queues) -> Floats:
    """Return the chance that a packet is marked where this many bytes wait (RED as in DCQCN 2015, figure 5)."""
    share = np.clip((waiting - queues.k_min) / (queues.k_max - queues.k_min), 0.0, 1.0)
    return np.where(waiting > queues.k_max, 1.0, share * queues.p_max)


class Counted(NamedTuple):
    """
    Counts by flow: *marked* and *lost* packets, and *cnps*. By link: seconds *paused*, and how often a pause began.
    """

    marked: Floats
    lost: Floats
    cnps: Floats
    paused: Floats
    pauses: Floats


@dataclass(frozen=True, slots=True)
class Settled:
    """
    The result for flows and links: means over the second half of the time, except *peak*, which is over all of it.

    *rate_gbps*: what arrived of each flow. *queue*, *peak*: bytes waiting before each link. *early*: counts of the
    first half; *steady*: counts a second in the second half.
    """

    rate_gbps: Floats
    queue: Floats
    peak: Floats
    early: Counted
    steady: Counted


def settle(
    links: Links | Ints,
    capacity_gbps: Floats,
    line_gbps: Floats,
    queues: Queues,
    *,
    time_s: float,
    step_s: float = 1e-6,
    begin_gbps: Floats | None = None,
    slows: Bools | None = None,
) -> Settled:
    """
    Run flows for *time_s*, starting at their *line_gbps*, or at *begin_gbps* as after a long time.

    *links*: one row of link ids a flow, the sender's own link first; the id after the last capacity pads a short path.
    *slows*: the flows whose rate follows marks, None for all; the other flows keep to their line.
    """
    steps = round(time_s / step_s)
    fluid = Fluid(links.T.astype(np.intp), capacity_gbps, line_gbps, queues, step_s)
    if slows is not None:
        fluid.never_slow(~slows)
    if begin_gbps is not None:
        fluid.begin(begin_gbps)
    for _ in range(steps // 2):
        fluid.step()
    early = fluid.counted(1.0)
    fluid.clear()
    for _ in range(steps - steps // 2):
        fluid.step()
    lasted_s = (steps - steps // 2) * step_s
    return Settled(
        rate_gbps=fluid.arrived / lasted_s * queues.packet * 8e-9,
        queue=fluid.q_sum / fluid.summed * queues.packet,
        peak=fluid.peak * queues.packet,
        early=early,
        steady=fluid.counted(1 / lasted_s),
    )


class Fluid:
    """The state of all flows and queues, in packets and packets a second; hops are rows, flows columns."""

    def __init__(self, hops: Ints, capacity_gbps: Floats, line_gbps: Floats, queues: Queues, step_s: float) -> None:
        per_gbps = 1e9 / 8 / queues.packet
        self._hops, self._links = hops, len(capacity_gbps) + 1  # and the padding
        self._flat, self._into = hops.ravel(), hops[:-1].ravel()
        self._budget = np.append(capacity_gbps * per_gbps * step_s, np.inf)
        self._line, self._step_s = line_gbps * per_gbps, step_s
        self._least = np.full_like(self._line, LEAST_GBPS * per_gbps)
        self._increase, self._counter = queues.increase_gbps * per_gbps, _COUNTER_BYTES / queues.packet
        self._queues, size = queues, queues.packet
        self._xoff = queues.xoff / size
        self._xon = (queues.xoff - _XON_LESS) / size
        flows = hops.shape[1]
        self._marks_at = np.ones(self._links, dtype=np.bool_)
        self._marks_at[hops[0]] = self._marks_at[-1] = False  # an RNIC does not mark what it has not sent yet
        self._waits = np.zeros(hops.shape)
        self._out = np.zeros(hops.shape)
        self._paused: Bools = np.zeros(self._links, dtype=np.bool_)
        self.rate, self._target, self._alpha = self._line.copy(), self._line.copy(), np.ones(flows)
        late = max(1, round(_TAU_S / step_s))
        self._p_late, self._r_late, self._at = np.zeros((late, flows)), np.tile(self._line, (late, 1)), 0
        self.peak = np.zeros(self._links)
        self.clear()

    def begin(self, rate_gbps: Floats) -> None:
        """Start every sender at its rate, as if it had hardly been cut of late."""
        self.rate = np.clip(rate_gbps * 1e9 / 8 / self._queues.packet, self._least, self._line)
        self._target, self._alpha = self.rate.copy(), np.zeros_like(self.rate)
        self._r_late[:] = self.rate

    def never_slow(self, free: Bools) -> None:
        """Never cut the rates of the flows *free*."""
        self._least = np.where(free, self._line, self._least)

    def clear(self) -> None:
        """Reset all counts."""
        flows = len(self._line)
        self.arrived, self._marked, self._lost, self._cnps = (np.zeros(flows) for _ in range(4))
        self._paused_s, self._pauses, self.q_sum = (np.zeros(self._links) for _ in range(3))
        self.summed = 0

    def counted(self, factor: float) -> Counted:
        """Return all counts since the last reset, times *factor*."""
        counts = (self._marked, self._lost, self._cnps, self._paused_s[:-1], self._pauses[:-1])
        return Counted(*(one * factor for one in counts))

    def step(self) -> None:
        """Advance all queues, then all rates, by one step."""
        marked = self._move()
        at = self._at % len(self._p_late)
        p, late_rate = self._p_late[at].copy(), self._r_late[at].copy()
        self._p_late[at], self._r_late[at] = marked, self.rate
        self._at += 1
        if self._queues.ecn:
            self._marked += marked * self._out[-1]
            self._update_rates(p, late_rate)

    def _move(self) -> Floats:
        """Move waiting packets on by one hop where they may; return how likely each flow's packets are marked."""
        waits, out, step_s, links = self._waits, self._out, self._step_s, self._links
        waits[0] += np.where(waits[0] < 1.0, self.rate * step_s, 0.0)  # an RNIC sends no faster than it is allowed to
        waits[1:] += out[:-1]
        q: Floats = np.bincount(self._flat, waits.ravel(), links).astype(np.float64, copy=False)
        q[-1] = 0.0
        if not self._queues.pfc:
            q = self._drop(q)
        budget = np.where(self._paused, 0.0, self._budget)
        served = np.minimum(1.0, np.divide(budget, q, out=np.ones(links), where=q > 0))
        np.multiply(waits, served[self._hops], out=out)
        waits -= out
        q *= 1.0 - served
        if self._queues.pfc:
            into = np.bincount(self._into, waits[1:].ravel(), links)
            into[-1] = 0.0
            paused = np.where(self._paused, into > self._xon, into > self._xoff)
            self._pauses += paused & ~self._paused
            self._paused_s += paused * step_s
            self._paused = paused
        self.arrived += out[-1]
        np.maximum(self.peak, q, out=self.peak)
        self.q_sum += q
        self.summed += 1
        chance = marking(q * self._queues.packet, self._queues)
        chance[~self._marks_at] = 0.0
        marked: Floats = 1.0 - np.prod(1.0 - chance[self._hops], axis=0)
        return marked

    def _drop(self, q: Floats) -> Floats:
        """
        Drop what exceeds the limit of a queue without PFC, at the cost of its flows; return what is left in the queues.
        """
        full = self._xoff + np.where(np.isfinite(self._budget), self._budget, 0.0)
        over = self._marks_at & (q > full)
        if not over.any():
            return q
        keeps = np.where(over, full / np.maximum(q, 1e-9), 1.0)
        lost = self._waits * (1.0 - keeps[self._hops])
        self._lost += lost.sum(axis=0)
        self._waits -= lost
        return q * keeps

    def _update_rates(self, p: Floats, late: Floats) -> None:
        """Apply DCQCN's three equations; *p* and *late* (rates) are of one tau ago."""
        rate, target, alpha, step_s = self.rate, self._target, self._alpha, self._step_s
        none = p < 1e-12
        log_kept = np.log1p(-np.where(none, 1e-12, np.minimum(p, 1 - 1e-12)))
        cut = np.where(none, 0.0, -np.expm1(_TAU_S * late * log_kept))
        by_bytes = p / np.expm1(np.minimum(-self._counter * log_kept, 700.0))
        by_time = p / np.expm1(np.minimum(-_TIMER_S * late * log_kept, 700.0))
        by_bytes = np.where(none, 1 / self._counter, by_bytes)
        by_time = np.where(none, 1 / (_TIMER_S * late), by_time)
        added = by_bytes * np.exp(_FAST_STEPS * self._counter * log_kept)
        added += by_time * np.exp(_FAST_STEPS * _TIMER_S * late * log_kept)
        self._cnps += cut / _TAU_S * step_s
        turned = -rate * alpha * cut / (2 * _TAU_S) + (target - rate) * late * (by_bytes + by_time) / 2
        aimed = -(target - rate) * cut / _TAU_S + self._increase * late * added
        marks = np.where(none, 0.0, -np.expm1(_ALPHA_S * late * log_kept))
        self._alpha = alpha + _GAIN * (marks - alpha) / _ALPHA_S * step_s
        self.rate = np.clip(rate + turned * step_s, self._least, self._line)
        self._target = np.clip(target + aimed * step_s, self._least, self._line)
