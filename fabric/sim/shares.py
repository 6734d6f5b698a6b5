"""How much bandwidth each state of recovery leaves, to the flows that are hit and to the trunk as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.sim.phy import FABRIC_RTT_US, LinkQuality, goodput_factor, sprayed_loss
from fabric.sim.recovery import State


@dataclass(frozen=True, slots=True)
class Share:
    """Of the healthy rate at full load: what the flows hit worst keep, and what the trunk's flows keep on average."""

    hit: float
    mean: float


@dataclass(frozen=True, slots=True)
class Trunk:
    """The faulty link and those beside it: *links* in all; for an access link, the ports of its host."""

    links: int
    line_rate_gbps: float
    rtt_us: float = FABRIC_RTT_US
    mtu_bytes: int = 4096
    message_bytes: int | None = None

    def goodput(self, loss: float) -> float:
        """What one flow at line rate keeps when it loses packets."""
        return goodput_factor(
            loss,
            rtt_us=self.rtt_us,
            rate_gbps=self.line_rate_gbps,
            mtu_bytes=self.mtu_bytes,
            message_bytes=self.message_bytes,
        )


def share(state: State, trunk: Trunk, *, quality: LinkQuality | None = None) -> Share:
    """
    The bandwidth left in *state*; *quality* is the faulty link's, and None when it is down.

    Of K links: the subnet manager spreads the dead one's flows, (K-1)/K for the worst. SHIELD moves them to one other
    port, which then carries twice its load: 1/2. Adaptive routing shares what is left: (K-1+c)/K for everyone on a
    slow link; on a lossy but fast one, whose queue is short, it keeps spraying, and everyone loses p/K.
    """
    if trunk.links < 1:
        raise ValueError(f"there is no trunk of {trunk.links} links")
    links = trunk.links
    if state is State.HEALTHY:
        return Share(1.0, 1.0)
    if state in (State.BLACK_HOLE, State.WAITING, State.ABORTED):
        return Share(0.0, (links - 1) / links if state is not State.ABORTED else 0.0)
    if state is State.DEGRADED:
        if quality is None:
            raise ValueError("a degraded link has a quality")
        left = quality.capacity_factor * trunk.goodput(quality.loss)
        return Share(left, (links - 1 + left) / links)
    if state is State.BALANCED and quality is not None:
        left = (links - 1 + quality.capacity_factor) / links * trunk.goodput(sprayed_loss(quality.loss, links=links))
        return Share(left, left)
    left = (links - 1) / links
    return Share(min(0.5, left) if state is State.SHIELDED else left, left)
