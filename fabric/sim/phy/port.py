"""One port of the rack: its states, its errors and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from math import inf
from operator import attrgetter

from fabric.sim.hosts.site import Site
from fabric.sim.phy.cabling import UNMARKED, End, Mark, Node
from fabric.sim.phy.quality import MTU_BYTES, UNWORN, Injection, LineKind, LinkQuality, Wear, quality_of

ERRORS = "errors"
"""Reason to be held: what the port sends or receives has too many errors to train on."""

ISOLATED = "isolated"
"""Reason to be held: a manager above the fabric has isolated the port."""


TICK_BITS = 64
"""
Bits of one tick of PortXmitWait, the time of 8 bytes.

For Quantum to Quantum-3 at any port width (NVIDIA's ibdiagnet manual 2.13, congestion assessment); for adapters nothing
was published, so a choice.
"""


@dataclass(slots=True)
class Counts:
    """
    Totals since the world began; used as rates, errors (and *age_s*) a second.

    *lost_gb* was lost on its way here. *waited_s*: how long data for the port waited because something further on held
    it up. *full*: codewords with exactly as many wrong symbols as the FEC can correct.
    """

    age_s: float = 0.0
    bits: float = 0.0
    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0
    downed: float = 0.0
    recovered: float = 0.0
    sent_gb: float = 0.0
    received_gb: float = 0.0
    lost_gb: float = 0.0
    waited_s: float = 0.0
    full: float = 0.0

    @property
    def lost_packets(self) -> float:
        """Return the packets that were sent to this port and lost: its receiver sees them as out of sequence."""
        return self.lost_gb * 1e9 / 8 / MTU_BYTES

    @property
    def effective_errors(self) -> int:
        """Return the whole wrong bits after the FEC."""
        return int(self.effective)

    @property
    def corrected_errors(self) -> int:
        """Return the whole wrong bits that the FEC corrected."""
        return int(max(0.0, self.raw - self.effective))

    @property
    def raw_errors(self) -> int:
        """Return the whole wrong bits before the FEC: corrected plus remaining, so that any two readings add up."""
        return self.corrected_errors + self.effective_errors

    @property
    def lane_errors(self) -> tuple[int, ...]:
        """Return raw errors lane by lane; they add up to the whole."""
        whole = self.raw_errors
        return tuple(whole // 4 + (lane < whole % 4) for lane in range(4))

    def ratio(self, errors: float) -> float:
        """
        Return wrong bits (*raw* before the FEC, *effective* after it, *symbol* after retries) over all; 0 without
        errors.
        """
        return errors / self.bits if errors >= 1.0 else 0.0

    def later(self, rates: Counts, lasted_s: float) -> Counts:
        """Return the totals after *lasted_s* seconds at these *rates*."""
        return Counts(*(total + rate * lasted_s for total, rate in zip(_ALL(self), _ALL(rates), strict=True)))


_ALL = attrgetter(*(one.name for one in fields(Counts)))
_SHOWN = attrgetter("symbol", "recovered", "downed")


@dataclass(slots=True)
class PortTally:
    """A port's counters; *rates*, and the *loss* of packets on their way to it, hold from *since_s* on."""

    rates: Counts = field(default_factory=Counts)
    loss: float = 0.0
    counts: Counts = field(default_factory=Counts)
    since_s: float = 0.0
    received_gb: float = 0.0  # when the rates were last set

    @property
    def clean_until_s(self) -> float:
        """Return when the first symbol error, recovery or loss of the link is counted at the present rates."""
        (symbol, recovered, downed), rates = _SHOWN(self.counts), _SHOWN(self.rates)
        if max(symbol, recovered, downed) >= 1.0:
            return self.since_s
        left = zip((1.0 - symbol, 1.0 - recovered, 1.0 - downed), rates, strict=True)
        return self.since_s + min((total / rate for total, rate in left if rate > 0.0), default=inf)

    def set_rates(self, rates: Counts, loss: float, at_s: float, *, received_gb: float) -> None:
        """Count at other rates from now on; *received_gb* is all that was received until now."""
        self.counts = self.errors(at_s)
        # What was received is what came through: loss / (1 - loss) of that did not.
        lost_gb = max(0.0, received_gb - self.received_gb) * self.loss / max(1.0 - self.loss, 1e-3)
        self.counts.lost_gb += lost_gb
        self.rates, self.loss, self.since_s, self.received_gb = rates, loss, at_s, received_gb

    def errors(self, at_s: float) -> Counts:
        """Return the totals of errors now, without traffic, which is expensive to compute."""
        return self.counts.later(self.rates, at_s - self.since_s)

    def read(self, at_s: float, traffic: Traffic) -> Counts:
        """Return the totals now."""
        self.set_rates(self.rates, self.loss, at_s, received_gb=traffic.received_gb)
        waited_s = self.waited_s(at_s, traffic)
        return replace(self.counts, sent_gb=traffic.sent_gb, received_gb=traffic.received_gb, waited_s=waited_s)

    def waited_s(self, at_s: float, traffic: Traffic) -> float:
        """Return for how long the port has waited to send: not longer than it has been there."""
        return min(self.counts.age_s + self.rates.age_s * (at_s - self.since_s), traffic.waited_s)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Gigabits that a port has sent and received, and how long its data waited to be sent."""

    sent_gb: float = 0.0
    received_gb: float = 0.0
    waited_s: float = 0.0


def capped(value: float, bits: int) -> int:
    """Return a counter that stops at its largest value."""
    return min(int(value), (1 << bits) - 1)


def words(gb: float) -> int:
    """Convert gigabits to the unit of the data counters, words of 4 bytes."""
    return int(gb * 1e9 / 32)


def ticks(waited_s: float, rate_gbps: float) -> int:
    """Return PortXmitWait of a port with this line rate: ticks in which there was data to send and none went."""
    return int(waited_s * rate_gbps * 1e9 / TICK_BITS)


def packets(gb: float) -> int:
    """Return how many full packets carry *gb*."""
    return int(gb * 1e9 / 8 / MTU_BYTES)


def traffic_of(site: Site, device: str, at_s: float) -> Traffic:
    """Return what an RNIC has sent to its leaf and received from it, in ended and running transfers."""
    out, into = site.layout.index[f"{device}:out"], site.layout.index[f"{device}:in"]
    sent = received = missed = 0.0
    for resources, load in site.loads(at_s):
        sent += load.gb * resources.count(out)
        received += load.gb * resources.count(into)
        missed += load.missed_gb * resources.count(out)
    return Traffic(sent, received, missed / site.layout.capacities[out])


class Physical(IntEnum):
    """Physical states, by the numbers of the InfiniBand specification (and of register PAOS)."""

    POLLING = 2
    DISABLED = 3
    LINK_UP = 5
    RECOVERY = 6


class Logical(IntEnum):
    """Logical states, by the numbers of the InfiniBand specification."""

    DOWN = 1
    INITIALIZING = 2
    ACTIVE = 4


PHYSICAL_TEXT = {
    Physical.POLLING: "Polling",
    Physical.DISABLED: "Disabled",
    Physical.LINK_UP: "LinkUp",
    Physical.RECOVERY: "LinkErrorRecovery",
}


@dataclass(slots=True, eq=False)
class Port:
    """
    One port of an RNIC or switch.

    *site*: the host of an RNIC's port. *mark*: what is wrong with its cable for ever. A *broken* port never comes up; a
    *held* one (ERRORS, ISOLATED) stays down while it is held. *interface_up*: the host's own switch, which does not
    touch the cable. *epoch* counts changes: what was planned before the last change is void.
    """

    node: Node
    end: End
    rate_gbps: float
    line: LineKind
    site: Site | None
    broken: bool
    mark: Mark = UNMARKED
    wear: Wear = UNWORN
    admin_up: bool = True
    interface_up: bool = True
    held: set[str] = field(default_factory=set)
    physical: Physical = Physical.LINK_UP
    logical: Logical = Logical.ACTIVE
    injection: Injection | None = None
    epoch: int = 0
    registers: dict[str, int] = field(default_factory=dict)  # registers that were written
    tally: PortTally = field(default_factory=PortTally)

    @property
    def can_train(self) -> bool:
        """Return whether the port would come up with a partner that can."""
        return self.admin_up and not self.broken and not self.held

    @property
    def up(self) -> bool:
        """Return whether the port has trained with its partner."""
        return self.physical == Physical.LINK_UP

    @property
    def active(self) -> bool:
        """Return whether data passes."""
        return self.logical == Logical.ACTIVE and self.interface_up

    @property
    def kernel_physical(self) -> Physical:
        """Return the physical state that its host's kernel sees: an interface that is off looks disabled."""
        return self.physical if self.interface_up else Physical.DISABLED

    @property
    def kernel_logical(self) -> Logical:
        """Return the logical state that its host's kernel sees."""
        return self.logical if self.interface_up else Logical.DOWN

    def quality(self) -> LinkQuality:
        """Return the quality of the direction that the port sends in."""
        return quality_of(self.line, self.rate_gbps, self.injection, self.wear)

    @property
    def loses(self) -> bool:
        """Return whether packets on their way to the port are lost, or ever were."""
        return self.tally.loss > 0.0 or self.tally.counts.lost_gb > 0.0

    @property
    def errs(self) -> bool:
        """Return whether the port sends more errors than a healthy one."""
        return self.injection is not None or self.wear is not UNWORN
