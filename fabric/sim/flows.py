"""Bytes on their way: each shared capacity is split equally among what runs on it at that moment."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from fabric.sim.site import Site

if TYPE_CHECKING:
    from fabric.sim.network import Network, Ring

Act = Callable[[float], None]
"""Something to do at a simulated time, which is passed in."""

Share = tuple[Site, tuple[int, ...], float]
"""A host, its capacities that are used, and how much of the flow's bandwidth one Gb/s of them carries."""


class Flow:
    """
    One transfer while it runs.

    It ends at a set time, or with *need_gb* when so much has been carried. With a *ring* it also shares the network
    between leaves, which leaves it *limit_gbps*. Subclasses say what follows (``finish``).
    """

    __slots__ = (
        "began_s",
        "ceiling_gbps",
        "end_s",
        "limit_gbps",
        "live",
        "need_gb",
        "rate_gbps",
        "ring",
        "sent_gb",
        "shares",
        "silent",
        "since_s",
        "steady",
    )

    def __init__(self, shares: tuple[Share, ...], ceiling_gbps: float, *, ring: Ring | None = None) -> None:
        self.shares = shares
        self.ceiling_gbps = ceiling_gbps
        self.ring = ring
        self.limit_gbps = inf
        self.rate_gbps = 0.0
        self.sent_gb = 0.0
        self.began_s = self.since_s = 0.0
        self.end_s: float | None = None
        self.need_gb: float | None = None
        self.steady = True
        self.live = False
        self.silent = False  # it has lost packets, and its transport has not found out yet that there is a path again

    def average_gbps(self) -> float:
        """Mean bandwidth over its life; the rate itself when that never changed."""
        if self.steady or self.since_s <= self.began_s:
            return self.rate_gbps
        return self.sent_gb / (self.since_s - self.began_s)

    def carried_gb(self, at_s: float) -> float:
        """What it has carried until now, while it runs."""
        return self.sent_gb + self.rate_gbps * (at_s - self.since_s)

    def heard(self, rate_gbps: float, at_s: float) -> float:
        """The rate it really goes at, where its path carries nothing or it is *silent*."""
        del at_s
        return rate_gbps

    def lost(self, site: Site, at_s: float) -> None:
        """A port on its way, on *site*, went down."""

    def finish(self, at_s: float) -> None:
        """It has ended and lets go of its capacities."""
        raise NotImplementedError


class Sharing:
    """Who runs where, and how fast; *schedule* is called with a time and what to do then."""

    __slots__ = ("_network_dirty", "_schedule", "dirty", "network")

    def __init__(self, schedule: Callable[[float, Act], None]) -> None:
        self._schedule = schedule
        self.dirty: dict[Site, None] = {}  # hosts whose shares must be worked out anew before time passes
        self.network: Network | None = None  # set before the first flow that has a ring
        self._network_dirty = False

    def begin(self, flow: Flow, at_s: float, *, seconds: float | None = None, need_gb: float | None = None) -> None:
        """Start a flow that lasts *seconds*, or until it has carried *need_gb*."""
        shared = False
        for site, resources, _ in flow.shares:
            users = site.users
            alone = True
            for index in resources:
                count = users[index] = users[index] + 1
                if count > 1:
                    alone = False
            site.flows.append(flow)
            if not alone or site.dents:
                shared = True
                self.dirty[site] = None
        if flow.ring is not None and self.network is not None:
            self.network.begin(flow, flow.ring)
            self.stir(flow)
            shared = True
        flow.live = True
        flow.began_s = flow.since_s = at_s
        flow.need_gb = need_gb
        flow.rate_gbps = flow.ceiling_gbps
        if seconds is not None:
            flow.end_s = at_s + seconds
            self._schedule(flow.end_s, _Due(self, flow))
        elif not shared:
            self._expect_end(flow, at_s)

    def end(self, flow: Flow, at_s: float) -> None:
        """Stop a flow now: count what it carried, let go of its capacities."""
        carried_gb = flow.sent_gb + flow.rate_gbps * (at_s - flow.since_s)
        if not flow.steady:
            flow.sent_gb += flow.rate_gbps * (at_s - flow.since_s)
        flow.since_s = at_s
        flow.end_s = None
        flow.live = False
        for site, resources, weight in flow.shares:
            most_gbps = flow.ceiling_gbps / weight
            site.load(resources).add(carried_gb / weight, flow.began_s, at_s, most_gbps=most_gbps)
            users = site.users
            for index in resources:
                count = users[index] = users[index] - 1
                if count:
                    self.dirty[site] = None
            site.flows.remove(flow)
        if flow.ring is not None and self.network is not None:
            self.network.end(flow, carried_gb)
            self.stir(flow)

    def network_changed(self) -> None:
        """The network routes otherwise, or its links changed: what runs over it goes on at another rate."""
        for flow in () if self.network is None else self.network.running:
            self.stir(flow)

    def stir(self, flow: Flow) -> None:
        """The network's shares change with this flow; one of its hosts stands for it among the dirty."""
        self._network_dirty = True
        self.dirty[flow.shares[0][0]] = None

    def settle(self, at_s: float) -> None:
        """Work out the shares of every host where something began or ended at this instant."""
        if self._network_dirty and self.network is not None:
            self._network_dirty = False
            for flow, limit_gbps in self.network.limits_gbps():
                if limit_gbps != flow.limit_gbps:
                    flow.limit_gbps = limit_gbps
                    self.dirty[flow.shares[0][0]] = None
        dirty = self.dirty
        self.dirty = {}
        for site in dirty:
            for flow in site.flows:
                rate_gbps = _rate(flow)
                if rate_gbps <= 0.0 or flow.silent:
                    rate_gbps = flow.heard(rate_gbps, at_s)
                if rate_gbps != flow.rate_gbps:
                    self._change(flow, rate_gbps, at_s)
                if flow.need_gb is not None:
                    self._expect_end(flow, at_s)

    def _change(self, flow: Flow, rate_gbps: float, at_s: float) -> None:
        if at_s > flow.since_s:
            flow.sent_gb += flow.rate_gbps * (at_s - flow.since_s)
            flow.since_s = at_s
            flow.steady = False
        flow.rate_gbps = rate_gbps

    def _expect_end(self, flow: Flow, at_s: float) -> None:
        assert flow.need_gb is not None
        if flow.rate_gbps <= 0:  # the network changed under it and left no way: it waits
            flow.end_s = None
            return
        carried_gb = flow.sent_gb + flow.rate_gbps * (at_s - flow.since_s)
        end_s = at_s + max(0.0, flow.need_gb - carried_gb) / flow.rate_gbps
        if flow.end_s is None or abs(end_s - flow.end_s) > 1e-9 * end_s:
            flow.end_s = end_s
            self._schedule(end_s, _Due(self, flow))


class _Due:
    """The moment a flow was expected to end; void when it ended before, or is expected at another time by now."""

    __slots__ = ("flow", "sharing")

    def __init__(self, sharing: Sharing, flow: Flow) -> None:
        self.sharing = sharing
        self.flow = flow

    def __call__(self, at_s: float) -> None:
        if self.flow.end_s == at_s:
            self.sharing.end(self.flow, at_s)
            self.flow.finish(at_s)


def _rate(flow: Flow) -> float:
    """The least of its shares."""
    rate_gbps = min(flow.ceiling_gbps, flow.limit_gbps)
    for site, resources, weight in flow.shares:
        users, capacities = site.users, site.capacities
        for index in resources:
            if users[index] > 1:
                rate_gbps = min(rate_gbps, capacities[index] * weight / users[index])
        for index in site.dents:
            if index in resources:
                rate_gbps = min(rate_gbps, site.dents[index] * weight / users[index])
    return rate_gbps
