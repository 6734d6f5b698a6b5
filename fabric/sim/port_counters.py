"""What a port has counted: errors that follow from bit error ratios and time, events, and the bytes of its traffic."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fabric.sim.site import Site

PACKET_BYTES = 4096
"""What one full packet carries on these links."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a receiver counts a second."""

    bits: float = 0.0
    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0


@dataclass(slots=True)
class Counts:
    """Totals since the world began, or since they were cleared; *up_s* and *age_s* are seconds."""

    age_s: float = 0.0
    bits: float = 0.0
    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0
    downed: float = 0.0
    recovered: float = 0.0
    intentional: float = 0.0
    sent_gb: float = 0.0
    received_gb: float = 0.0

    def minus(self, other: Counts) -> Counts:
        """What was added since *other*."""
        return Counts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    @property
    def raw_ber(self) -> float:
        """Wrong bits before the FEC over all bits; 0 when none was wrong."""
        return self.raw / self.bits if self.raw >= 1.0 else 0.0

    @property
    def effective_ber(self) -> float:
        """Wrong bits after the FEC over all bits."""
        return self.effective / self.bits if self.effective >= 1.0 else 0.0

    @property
    def symbol_ber(self) -> float:
        """Wrong bits that not even link-level retry took away, over all bits."""
        return self.symbol / self.bits if self.symbol >= 1.0 else 0.0


class Tally:
    """A port's counters; *rates* hold from *since_s* on."""

    __slots__ = ("cleared", "counts", "rates", "since_s")

    def __init__(self, rates: Rates) -> None:
        self.counts = Counts()
        self.cleared: dict[str, Counts] = {}
        self.rates = rates
        self.since_s = 0.0

    def turn(self, rates: Rates, at_s: float) -> None:
        """From now on count at other rates."""
        counts, old, lasted_s = self.counts, self.rates, at_s - self.since_s
        counts.age_s += lasted_s
        counts.bits += old.bits * lasted_s
        counts.raw += old.raw * lasted_s
        counts.effective += old.effective * lasted_s
        counts.symbol += old.symbol * lasted_s
        self.rates, self.since_s = rates, at_s

    def read(self, at_s: float, *, view: str, traffic: tuple[float, float]) -> Counts:
        """The totals now, as one *view* sees them that can be cleared on its own; *traffic*: sent, received."""
        now = self._now(at_s, traffic)
        old = self.cleared.get(view)
        return now if old is None else now.minus(old)

    def clear(self, at_s: float, *, view: str, traffic: tuple[float, float]) -> None:
        """Start a view at 0."""
        self.cleared[view] = self._now(at_s, traffic)

    def _now(self, at_s: float, traffic: tuple[float, float]) -> Counts:
        self.turn(self.rates, at_s)
        now = self.counts.minus(Counts())
        now.sent_gb, now.received_gb = traffic
        return now


def traffic_gb(site: Site, device: str, at_s: float) -> tuple[float, float]:
    """Gigabits an RNIC has sent to its leaf and received from it: what ended, and what runs."""
    out, into = site.layout.index[f"{device}:out"], site.layout.index[f"{device}:in"]
    sent = received = 0.0
    for resources, gb in site.carried.items():
        sent += gb * resources.count(out)
        received += gb * resources.count(into)
    for flow in site.flows:
        for where, resources, weight in flow.shares:
            if where is site:
                gb = flow.carried_gb(at_s) / weight
                sent += gb * resources.count(out)
                received += gb * resources.count(into)
    return sent, received
