"""A RoCE network with queues: the rates of pairs of hosts under ECN, PFC and DCQCN, and what their ports count."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from fabric.model.inventory import MockSettings
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.hosts.site import Flow, Ring
from fabric.sim.net.clos import Bools, Floats, Ints
from fabric.sim.net.dcqcn import Counted, Queues, Settled, settle
from fabric.sim.net.managers import Forwarding
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.network import Network
from fabric.sim.phy.qos import PAUSE_BIT_TIMES, Qos
from fabric.sim.phy.quality import goodput_factor

MOST_FLOWS = 1024
"""Most flows that the model computes together; more share by max-min (a choice: some seconds of one CPU)."""

_EARLY_S, _STEADY_S, _STEP_S = 4e-3, 10e-3, 4e-6
"""
How long flows are followed from their start at line rate, and in the steady state; a step is about a tenth of the time
between CNPs.
"""

_FULL = 1 + 1e-9

_Counter = tuple[str, str, str]
"""Host, device, and the name of a counter as mlx5 calls it."""


class _Pair(NamedTuple):
    """One flow that shares queues: the RNICs (host, device) at its ends, and their settings."""

    flow: int
    sender: tuple[str, str]
    receiver: tuple[str, str]
    sent: Qos
    taken: Qos

    @property
    def slows(self) -> bool:
        """Return whether its sender hears of marks, and slows down for them."""
        return self.sent.slows and self.taken.answers


class QueuedNetwork(Network):
    """
    A network whose links have queues: flows between two hosts share it by DCQCN and not by max-min.

    Only flows over an overloaded link are simulated, with all flows that share a link with them. While a collective
    runs, whose edges are coupled, or while some flows are routed adaptively and others not, everything shares by
    max-min.

    *qos*: how an RNIC is set now. A sender slows down where it does so for marks (RP) and its receiver answers them
    (NP). Where one host among them has no PFC for the class, none of them is paused (choice: the model does not tell
    whose packets are lost then). *switched*: whether switches mark now, and whether they pause.
    """

    def __init__(
        self,
        net: NamedClos,
        mock: MockSettings,
        forwarding: Forwarding,
        *,
        link_layer: str,
        seed: int,
        qos: Callable[[str, str], Qos],
        switched: Callable[[], tuple[bool, bool]],
    ) -> None:
        super().__init__(net, mock, forwarding, link_layer=link_layer, seed=seed)
        self._queues = Queues(ecn=mock.ecn, pfc=mock.pfc)
        self._qos, self._switched = qos, switched
        self._begun = False
        self._known: dict[bytes, tuple[Floats, Settled, Settled]] = {}
        self._counted: defaultdict[_Counter, float] = defaultdict(float)
        self._growing: dict[_Counter, float] = {}  # growth a second
        self._since_s = 0.0

    def begin(self, flow: Flow, ring: Ring) -> None:
        """Add a flow as in any network, and note that flows that begin at line rate fill queues."""
        super().begin(flow, ring)
        self._begun = True

    def counted(self, host: str, device: str, name: str, at_s: float) -> int:
        """Return a counter of an RNIC's port; pause times are in microseconds."""
        key = (host, device, name)
        return int(self._counted[key] + self._growing.get(key, 0.0) * (at_s - self._since_s))

    def limits_gbps(self, at_s: float) -> Iterator[tuple[Flow, float]]:
        """Yield limits as any network does, but what the queues leave where they fill."""
        for key, rate in self._growing.items():
            self._counted[key] += rate * (at_s - self._since_s)
        self._growing, self._since_s = {}, at_s
        loud = [flow for flow in self._running if not flow.silent]
        ways = {self.forwarding.adapts(self._running[flow]) for flow in loud}
        if len(ways) != 1 or not all(flow.queued for flow in loud):
            yield from super().limits_gbps(at_s)
            return
        yield from self._silent()
        rings = [self._running[flow] for flow in loud]
        rows, capacity = self._loads(rings)
        paths = [self._found(ring) for ring in rings]
        links, weight = np.concatenate(rows).astype(np.int64), np.concatenate([one.weight for one in paths])
        owner = np.repeat(np.arange(len(loud)), [len(one.weight) for one in paths])
        wanted = np.array([flow.ceiling_gbps for flow in loud])[owner] * weight / RNIC_EFFICIENCY
        capacity = self._received(loud, links, owner, capacity.copy())
        got = self._shared(*self._with_others(rings, links, capacity, wanted))
        self.tenants.set_rates(got[len(owner) :], at_s)
        self._begun = False
        total = np.bincount(owner, got[: len(owner)], len(loud)) * RNIC_EFFICIENCY
        for flow, rate_gbps in zip(loud, total.tolist(), strict=True):
            yield flow, inf if rate_gbps * _FULL >= flow.ceiling_gbps else rate_gbps

    def _with_others(
        self, rings: Sequence[Ring], links: Ints, capacity: Floats, wanted: Floats
    ) -> tuple[Ints, Floats, Floats]:
        """Add the flows of tenants behind all others; each comes in over a link of its own."""
        flows, count = len(self.tenants.links), len(capacity)
        if not flows:
            return links, capacity, wanted
        rows = self._others(rings, links.shape[1] - 1, pad=count + flows)
        own = np.arange(count, count + flows)[:, np.newaxis]
        every = np.concatenate([np.where(links == count, count + flows, links), np.concatenate([own, rows], axis=1)])
        wants = self.tenants.wants
        return every, np.concatenate([capacity, wants]), np.concatenate([wanted, wants])

    def _received(self, flows: list[Flow], links: Ints, owner: Ints, capacity: Floats) -> Floats:
        """
        Return the capacities, with the last link of each path limited to what its host takes: a slow host pauses its
        switch.
        """
        for number, flow in enumerate(flows):
            site, resources, _ = flow.shares[-1]
            takes = min(map(site.left_gbps, resources)) / RNIC_EFFICIENCY
            last = int(links[np.searchsorted(owner, number), -1])
            if takes < capacity[last]:
                self._growing[*self._end(last), "tx_prio3_pause_duration"] = (1 - takes / capacity[last]) * 1e6
                capacity[last] = takes
        return capacity

    def _end(self, link: int) -> tuple[str, str]:
        """Return host and device of an RNIC's link, either direction."""
        return self.net.ends[link % self.net.clos.nics]

    def _shared(self, links: Ints, capacity: Floats, wanted: Floats) -> Floats:
        """Return the rate of each sub-flow in Gb/s; a sub-flow over no full link gets all it wants."""
        load = np.bincount(links.ravel(), np.repeat(wanted, links.shape[1]), len(capacity) + 1)
        full = np.append(load[:-1] > capacity * _FULL, False)
        meets: Bools = np.any(full[links], axis=1)
        for _ in range(len(meets)):  # add all that shares a link with those, and so on
            busy = np.zeros(len(full), dtype=np.bool_)
            busy[links[meets]] = True
            busy[-1] = False
            wider: Bools = np.any(busy[links], axis=1)
            if (wider == meets).all():
                break
            meets = wider
        got = wanted.copy()
        if meets.any():
            got[meets] = self._settled(links[meets], capacity, wanted[meets])
        return got

    def _settled(self, links: Ints, capacity: Floats, wanted: Floats) -> Floats:
        """Return the model's rates of these sub-flows; computed once for equal sets of flows."""
        fair = max_min(links, capacity, limit_gbps=wanted)
        if len(links) > MOST_FLOWS:
            return fair
        count = len(capacity)
        gaps = np.argsort(links == count, axis=1, kind="stable")
        links = np.take_along_axis(links, gaps, axis=1)[:, : int((links < count).sum(axis=1).max())]
        there = links < count
        found, first, place = np.unique(links[there], return_index=True, return_inverse=True)
        order = np.argsort(first)  # of appearance
        own = found[order]
        rows = np.full(links.shape, len(own))
        rows[there] = np.argsort(order)[place]
        pairs = self._pairs(links, count)
        slows, selective = np.ones((2, len(links)), dtype=np.bool_)
        mine = [one.flow for one in pairs]
        slows[mine], selective[mine] = [one.slows for one in pairs], [one.sent.selective for one in pairs]
        marks, pauses = self._switched()
        pauses = pauses and self._queues.pfc and all(one.sent.pfc and one.taken.pfc for one in pairs)
        queues = replace(self._queues, ecn=marks and self._queues.ecn, pfc=pauses)
        key = rows.tobytes() + capacity[own].tobytes() + wanted.tobytes() + slows.tobytes() + selective.tobytes()
        key += bytes([queues.pfc, queues.ecn])
        if key not in self._known:
            run = partial(settle, rows, capacity[own], wanted, queues, step_s=_STEP_S, slows=slows)
            early = run(time_s=_EARLY_S)
            steady = run(time_s=_STEADY_S, begin_gbps=fair if queues.ecn else None)
            self._known[key] = self._goodput(steady, wanted, selective), early, steady
        got, early, steady = self._known[key]
        self._count_up(pairs, own, early.early, steady.steady)
        return got

    def _pairs(self, links: Ints, count: int) -> list[_Pair]:
        """Return every flow but those of tenants, whose RNICs are set right; *count* pads a path."""
        mine = np.flatnonzero(links[:, 0] < count - len(self.tenants.links))
        last = np.take_along_axis(links, (links < count).sum(axis=1, keepdims=True) - 1, axis=1)[:, 0]
        ends = ((flow, self._end(int(links[flow, 0])), self._end(int(last[flow]))) for flow in mine.tolist())
        return [_Pair(flow, one, other, self._qos(*one), self._qos(*other)) for flow, one, other in ends]

    def _goodput(self, steady: Settled, wanted: Floats, selective: Bools) -> Floats:
        """Return the rates left after resending lost packets; *selective* flows resend only the lost packets."""
        packets = steady.rate_gbps * 1e9 / 8 / self._queues.packet
        lost = steady.steady.lost
        loss = np.divide(lost, packets + lost, out=np.zeros_like(packets), where=lost > 0)
        all_alone = self._mock.retransmission == "selective_repeat"
        left = [
            1.0 - float(p) if alone or all_alone else goodput_factor(float(p), rate_gbps=float(rate))
            for p, rate, alone in zip(loss, wanted, selective, strict=True)
        ]
        return np.minimum(steady.rate_gbps + lost * self._queues.packet * 8e-9, wanted) * left

    def _count_up(self, pairs: Sequence[_Pair], own: Ints, early: Counted, steady: Counted) -> None:
        """
        Add to the counters of ports: at once, if flows have just begun, and their growth a second. *own*: the links in
        order.

        CNPs are sent for flows whose receiver answers marks, and handled where the sender also slows down for them.
        """
        growing: defaultdict[_Counter, float] = defaultdict(float)
        once = self._counted if self._begun else defaultdict[_Counter, float](float)
        access = np.flatnonzero(own < self.net.clos.nics).tolist()
        for into, found in ((once, early), (growing, steady)):
            for one in pairs:
                into[*one.receiver, "np_ecn_marked_roce_packets"] += float(found.marked[one.flow])
                into[*one.receiver, "np_cnp_sent"] += float(found.cnps[one.flow]) * one.taken.answers
                into[*one.receiver, "out_of_sequence"] += float(found.lost[one.flow])
                into[*one.sender, "rp_cnp_handled"] += float(found.cnps[one.flow]) * one.slows
                into[*one.sender, "packet_seq_err"] += float(found.lost[one.flow])
            for at in access:
                end, paused = self._end(int(own[at])), float(found.paused[at])
                longest_s = PAUSE_BIT_TIMES / (self.net.clos.capacity_gbps[own[at]] * 1e9)
                into[*end, "rx_prio3_pause_duration"] += paused * 1e6
                into[*end, "rx_prio3_pause"] += float(found.pauses[at] + paused / longest_s)
        for key, rate in growing.items():
            self._growing[key] = self._growing.get(key, 0.0) + rate
