"""One port of the rack: its states, its errors and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from operator import attrgetter

from fabric.sim.hosts.site import Site
from fabric.sim.phy.cabling import UNMARKED, End, Mark, Node
from fabric.sim.phy.quality import MTU_BYTES, UNWORN, Injection, LineKind, LinkQuality, Wear, quality_of

ERRORS = "errors"
"""What it sends, or receives, is too wrong to train on."""

ISOLATED = "isolated"
"""A manager above the fabric keeps it out."""


TICK_BITS = 64
"""
A tick of PortXmitWait is the time of 8 bytes: of Quantum to Quantum-3, whatever the width of the port (NVIDIA's
ibdiagnet manual 2.13, congestion assessment); of adapters nobody says it, so a choice.
"""


@dataclass(slots=True)
class Counts:
    """
    Totals since the world began, or of errors (and *age_s*) what comes a second.

    *lost_gb* is what was lost on its way here, *waited_s* how long data for the port waited because something further
    on held it up, *full* the codewords with as many wrong symbols as the FEC mends.
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

    def wait_ticks(self, rate_gbps: float) -> int:
        """PortXmitWait of a port with this line rate: ticks in which there was data to send and none went."""
        return int(self.waited_s * rate_gbps * 1e9 / TICK_BITS)

    @property
    def lost_packets(self) -> float:
        """Packets that were sent to this port and did not arrive: what its receiver sees as out of sequence."""
        return self.lost_gb * 1e9 / 8 / MTU_BYTES

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

    def ratio(self, errors: float) -> float:
        """Wrong bits (*raw* before the FEC, *effective* after it, *symbol* after retries) over all; 0 when none was."""
        return errors / self.bits if errors >= 1.0 else 0.0

    def later(self, rates: Counts, lasted_s: float) -> Counts:
        """The totals when so much a second has come to them for so long."""
        return Counts(*(total + rate * lasted_s for total, rate in zip(_ALL(self), _ALL(rates), strict=True)))


_ALL = attrgetter(*(one.name for one in fields(Counts)))


@dataclass(slots=True)
class PortTally:
    """A port's counters; *rates*, and the *loss* of packets on their way to it, hold from *since_s* on."""

    rates: Counts = field(default_factory=Counts)
    loss: float = 0.0
    counts: Counts = field(default_factory=Counts)
    since_s: float = 0.0
    received_gb: float = 0.0  # when it last turned

    def turn(self, rates: Counts, loss: float, at_s: float, *, received_gb: float) -> None:
        """From now on count at other rates; *received_gb* is all that was received until now."""
        self.counts = self.errors(at_s)
        # What was received is what came through: loss / (1 - loss) of that did not.
        lost_gb = max(0.0, received_gb - self.received_gb) * self.loss / max(1.0 - self.loss, 1e-3)
        self.counts.lost_gb += lost_gb
        self.rates, self.loss, self.since_s, self.received_gb = rates, loss, at_s, received_gb

    def errors(self, at_s: float) -> Counts:
        """The totals of errors now; traffic is not looked at, which is dear."""
        return self.counts.later(self.rates, at_s - self.since_s)

    def read(self, at_s: float, traffic: Traffic) -> Counts:
        """The totals now."""
        self.turn(self.rates, self.loss, at_s, received_gb=traffic.received_gb)
        waited_s = min(self.counts.age_s, traffic.waited_s)
        return replace(self.counts, sent_gb=traffic.sent_gb, received_gb=traffic.received_gb, waited_s=waited_s)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Gigabits that a port has sent and received, and how long what it had to send waited."""

    sent_gb: float = 0.0
    received_gb: float = 0.0
    waited_s: float = 0.0


def capped(value: float, bits: int) -> int:
    """A counter that stops at its largest value."""
    return min(int(value), (1 << bits) - 1)


def words(gb: float) -> int:
    """Gigabits as the data counters have them, in words of 4 bytes."""
    return int(gb * 1e9 / 32)


def packets(gb: float) -> int:
    """Full packets that carry so much."""
    return int(gb * 1e9 / 8 / MTU_BYTES)


def lanes(counts: Counts) -> tuple[int, ...]:
    """Raw errors lane by lane, which add up to the whole."""
    whole = counts.raw_errors
    return tuple(whole // 4 + (lane < whole % 4) for lane in range(4))


def traffic_of(site: Site, device: str, at_s: float) -> Traffic:
    """What an RNIC has sent to its leaf and received from it: what ended, and what runs."""
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
    """Logical states, likewise."""

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

    *site* is the host of an RNIC's port, *mark* what is wrong with its cable for ever. *broken* ones never come up;
    what is *held* (ERRORS, ISOLATED) does not while it is. *interface_up* is the host's own switch, which leaves the
    cable alone. *turn* counts changes, so that what was planned before the last one is void.
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
    turn: int = 0
    registers: dict[str, int] = field(default_factory=dict)  # what was written into registers that change nothing here
    tally: PortTally = field(default_factory=PortTally)

    @property
    def can_train(self) -> bool:
        """Whether it would come up with a partner that can."""
        return self.admin_up and not self.broken and not self.held

    @property
    def up(self) -> bool:
        """Whether it has trained with its partner."""
        return self.physical == Physical.LINK_UP

    @property
    def active(self) -> bool:
        """Whether data passes."""
        return self.logical == Logical.ACTIVE and self.interface_up

    @property
    def kernel_physical(self) -> Physical:
        """The physical state that its own host's kernel sees: an interface that is off looks disabled."""
        return self.physical if self.interface_up else Physical.DISABLED

    @property
    def kernel_logical(self) -> Logical:
        """The logical state that the kernel sees."""
        return self.logical if self.interface_up else Logical.DOWN

    def quality(self) -> LinkQuality:
        """What its errors make of the direction it sends."""
        return quality_of(self.line, self.rate_gbps, self.injection, self.wear)

    @property
    def loses(self) -> bool:
        """Whether packets on their way to it are lost, or ever were."""
        return self.tally.loss > 0.0 or self.tally.counts.lost_gb > 0.0

    @property
    def errs(self) -> bool:
        """Whether it sends more errors than a healthy port."""
        return self.injection is not None or self.wear is not UNWORN
