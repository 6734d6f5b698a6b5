"""Bytes on their way: each shared capacity is split equally among what runs on it at that moment."""

from __future__ import annotations

from collections.abc import Callable

from fabric.sim.site import Site

Act = Callable[[float], None]
"""Something to do at a simulated time, which is passed in."""

Share = tuple[Site, tuple[int, ...], float]
"""A host, its capacities that are used, and how much of the flow's bandwidth one Gb/s of them carries."""


class Flow:
    """
    One transfer while it runs.

    It ends at a set time, or with *need_gb* when so much has been carried. Subclasses say what follows (``finish``).
    """

    __slots__ = (
        "began_s",
        "ceiling_gbps",
        "end_s",
        "live",
        "need_gb",
        "rate_gbps",
        "sent_gb",
        "shares",
        "since_s",
        "steady",
    )

    def __init__(self, shares: tuple[Share, ...], ceiling_gbps: float) -> None:
        self.shares = shares
        self.ceiling_gbps = ceiling_gbps
        self.rate_gbps = 0.0
        self.sent_gb = 0.0
        self.began_s = self.since_s = 0.0
        self.end_s: float | None = None
        self.need_gb: float | None = None
        self.steady = True
        self.live = False

    def average_gbps(self) -> float:
        """Mean bandwidth over its life; the rate itself when that never changed."""
        if self.steady or self.since_s <= self.began_s:
            return self.rate_gbps
        return self.sent_gb / (self.since_s - self.began_s)

    def finish(self, at_s: float) -> None:
        """It has ended and lets go of its capacities."""
        raise NotImplementedError


class Sharing:
    """Who runs where, and how fast; *schedule* is called with a time and what to do then."""

    __slots__ = ("_schedule", "dirty")

    def __init__(self, schedule: Callable[[float, Act], None]) -> None:
        self._schedule = schedule
        self.dirty: dict[Site, None] = {}  # hosts whose shares must be worked out anew before time passes

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
            if not alone:
                shared = True
                self.dirty[site] = None
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
        if not flow.steady:
            flow.sent_gb += flow.rate_gbps * (at_s - flow.since_s)
        flow.since_s = at_s
        flow.end_s = None
        flow.live = False
        for site, resources, _ in flow.shares:
            users = site.users
            for index in resources:
                count = users[index] = users[index] - 1
                if count:
                    self.dirty[site] = None
            site.flows.remove(flow)

    def settle(self, at_s: float) -> None:
        """Work out the shares of every host where something began or ended at this instant."""
        dirty = self.dirty
        self.dirty = {}
        for site in dirty:
            for flow in site.flows:
                rate_gbps = _rate(flow)
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
    rate_gbps = flow.ceiling_gbps
    for site, resources, weight in flow.shares:
        users, capacities = site.users, site.capacities
        for index in resources:
            if users[index] > 1:
                rate_gbps = min(rate_gbps, capacities[index] * weight / users[index])
    return rate_gbps
