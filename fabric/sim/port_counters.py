"""What a port has counted: errors that follow from bit error ratios and time, events, and the bytes of its traffic."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fabric.sim.site import Site

PACKET_BYTES = 4096
"""What one full packet carries on these links."""

TICK_S = 6.4e-9
"""The tick of PortXmitWait: one cycle at 156.25 MHz; the specification leaves it to the device, so a choice."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a receiver counts a second; *loss* is the share of the packets on their way to it that never arrive."""

    bits: float = 0.0
    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0
    loss: float = 0.0
    recovered: float = 0.0


@dataclass(slots=True)
class Counts:
    """
    Totals since the world began, or since they were cleared.

    *lost_gb* is what was lost on its way here, *waited_s* how long data for the port waited because something further
    on held it up.
    """

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
    lost_gb: float = 0.0
    waited_s: float = 0.0

    def minus(self, other: Counts) -> Counts:
        """What was added since *other*."""
        return Counts(*[getattr(self, name) - getattr(other, name) for name in _NAMES])

    @property
    def wait_ticks(self) -> float:
        """PortXmitWait: ticks in which there was data to send and none went."""
        return self.waited_s / TICK_S

    @property
    def lost_packets(self) -> float:
        """Packets that were sent to this port and did not arrive: what its receiver sees as out of sequence."""
        return self.lost_gb * 1e9 / 8 / PACKET_BYTES

    @property
    def effective_errors(self) -> int:
        """Whole wrong bits after the FEC."""
        return int(self.effective)

    @property
    def corrected_errors(self) -> int:
        """Whole wrong bits that the FEC put right."""
        return int(max(0.0, self.raw - self.effective))

    @property
    def raw_errors(self) -> int:
        """Whole wrong bits before the FEC: those put right and those left, so that any two readings add up."""
        return self.corrected_errors + self.effective_errors

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


_NAMES = tuple(one.name for one in fields(Counts))


class Tally:
    """A port's counters; *rates* hold from *since_s* on."""

    __slots__ = ("cleared", "counts", "rates", "received_gb", "since_s")

    def __init__(self, rates: Rates) -> None:
        self.counts = Counts()
        self.cleared: dict[str, Counts] = {}
        self.rates = rates
        self.since_s = 0.0
        self.received_gb = 0.0  # when it last turned

    def turn(self, rates: Rates, at_s: float, *, received_gb: float) -> None:
        """From now on count at other rates; *received_gb* is all that was received until now."""
        counts, old, lasted_s = self.counts, self.rates, at_s - self.since_s
        counts.age_s += lasted_s
        counts.bits += old.bits * lasted_s
        counts.raw += old.raw * lasted_s
        counts.effective += old.effective * lasted_s
        counts.symbol += old.symbol * lasted_s
        counts.recovered += old.recovered * lasted_s
        # What was received is what came through: loss / (1 - loss) of that did not.
        counts.lost_gb += max(0.0, received_gb - self.received_gb) * old.loss / max(1.0 - old.loss, 1e-3)
        self.rates, self.since_s, self.received_gb = rates, at_s, received_gb

    def read(self, at_s: float, *, view: str, traffic: Traffic) -> Counts:
        """The totals now, as one *view* sees them that can be cleared on its own."""
        now = self._now(at_s, traffic)
        old = self.cleared.get(view)
        return now if old is None else now.minus(old)

    def clear(self, at_s: float, *, view: str, traffic: Traffic) -> None:
        """Start a view at 0."""
        self.cleared[view] = self._now(at_s, traffic)

    def _now(self, at_s: float, traffic: Traffic) -> Counts:
        self.turn(self.rates, at_s, received_gb=traffic.received_gb)
        now = self.counts.minus(Counts())
        now.sent_gb, now.received_gb = traffic.sent_gb, traffic.received_gb
        now.waited_s = min(now.age_s, traffic.waited_s)
        return now


@dataclass(frozen=True, slots=True)
class Traffic:
    """Gigabits that a port has sent and received, and how long what it had to send waited."""

    sent_gb: float = 0.0
    received_gb: float = 0.0
    waited_s: float = 0.0

    @property
    def at_peer(self) -> Traffic:
        """The same at the other end of the cable, whose own waiting is not known."""
        return Traffic(self.received_gb, self.sent_gb)


def traffic_of(site: Site, device: str, at_s: float) -> Traffic:
    """What an RNIC has sent to its leaf and received from it: what ended, and what runs."""
    out, into = site.layout.index[f"{device}:out"], site.layout.index[f"{device}:in"]
    sent = received = missed = 0.0
    for resources, load in site.carried.items():
        sent += load.gb * resources.count(out)
        received += load.gb * resources.count(into)
        missed += load.missed_gb * resources.count(out)
    for flow in site.running:
        for where, resources, weight in flow.shares:
            if where is site:
                gb = flow.carried_gb(at_s) / weight
                most_gb = flow.ceiling_gbps * (at_s - flow.began_s) / weight
                sent += gb * resources.count(out)
                received += gb * resources.count(into)
                missed += max(0.0, most_gb - gb) * resources.count(out)
    return Traffic(sent, received, missed / site.layout.capacities[out])
