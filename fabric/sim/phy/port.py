"""One port of the rack: its states, its errors and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fabric.sim.hosts.site import Site
from fabric.sim.phy.cabling import UNMARKED, End, Node
from fabric.sim.phy.quality import UNWORN, Injection, LinkQuality, line_kind, quality_of

ERRORS = "errors"
"""What it sends, or receives, is too wrong to train on."""

ISOLATED = "isolated"
"""A manager above the fabric keeps it out."""


PACKET_BYTES = 4096
"""What one full packet carries on these links."""

TICK_BITS = 64
"""
A tick of PortXmitWait is the time of 8 bytes: of Quantum to Quantum-3, whatever the width of the port (NVIDIA's
ibdiagnet manual 2.13, congestion assessment); of adapters nobody says it, so a choice.
"""


@dataclass(slots=True)
class Counts:
    """
    Totals since the world began, or of errors what comes a second.

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


class PortTally:
    """A port's counters; *rates*, and the *loss* of packets on their way to it, hold from *since_s* on."""

    __slots__ = ("counts", "loss", "rates", "received_gb", "since_s")

    def __init__(self) -> None:
        self.counts, self.rates = Counts(), Counts()
        self.loss = self.since_s = 0.0
        self.received_gb = 0.0  # when it last turned

    def turn(self, rates: Counts, loss: float, at_s: float, *, received_gb: float) -> None:
        """From now on count at other rates; *received_gb* is all that was received until now."""
        self.counts = self.errors(at_s)
        # What was received is what came through: loss / (1 - loss) of that did not.
        lost_gb = max(0.0, received_gb - self.received_gb) * self.loss / max(1.0 - self.loss, 1e-3)
        self.counts.lost_gb += lost_gb
        self.rates, self.loss, self.since_s, self.received_gb = rates, loss, at_s, received_gb

    def errors(self, at_s: float) -> Counts:
        """The totals of errors now; traffic is not looked at, which is dear."""
        counts, rates, lasted_s = self.counts, self.rates, at_s - self.since_s
        return Counts(
            age_s=counts.age_s + lasted_s,
            bits=counts.bits + rates.bits * lasted_s,
            raw=counts.raw + rates.raw * lasted_s,
            effective=counts.effective + rates.effective * lasted_s,
            symbol=counts.symbol + rates.symbol * lasted_s,
            downed=counts.downed,
            recovered=counts.recovered + rates.recovered * lasted_s,
            lost_gb=counts.lost_gb,
            full=counts.full + rates.full * lasted_s,
        )

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

    @property
    def at_peer(self) -> Traffic:
        """The same at the other end of the cable, whose own waiting is not known."""
        return Traffic(self.received_gb, self.sent_gb)


def capped(value: float, bits: int) -> int:
    """A counter that stops at its largest value."""
    return min(int(value), (1 << bits) - 1)


def words(gb: float) -> int:
    """Gigabits as the data counters have them, in words of 4 bytes."""
    return int(gb * 1e9 / 32)


def packets(gb: float) -> int:
    """Full packets that carry so much."""
    return int(gb * 1e9 / 8 / PACKET_BYTES)


def lanes(counts: Counts, *, count: int = 4) -> tuple[int, ...]:
    """Raw errors lane by lane, which add up to the whole."""
    whole = counts.raw_errors
    return tuple(whole // count + (lane < whole % count) for lane in range(count))


def traffic_of(site: Site, device: str, at_s: float) -> Traffic:
    """What an RNIC has sent to its leaf and received from it: what ended, and what runs."""
    out, into = site.layout.index[f"{device}:out"], site.layout.index[f"{device}:in"]
    sent = received = missed = 0.0
    for resources, load in site.loads(at_s):
        sent += load.gb * resources.count(out)
        received += load.gb * resources.count(into)
        missed += load.missed_gb * resources.count(out)
    return Traffic(sent, received, missed / site.layout.capacities[out])


POLLING, DISABLED, LINK_UP, RECOVERY = 2, 3, 5, 6
"""Physical states, by the numbers of the InfiniBand specification (and of register PAOS)."""
DOWN, INITIALIZING, ACTIVE = 1, 2, 4
"""Logical states, likewise."""

PHYSICAL_TEXT = {POLLING: "Polling", DISABLED: "Disabled", LINK_UP: "LinkUp", RECOVERY: "LinkErrorRecovery"}


class Port:
    """
    One port of an RNIC or switch.

    *site* is the host of an RNIC's port, *mark* what is wrong with its cable for ever. *broken* ones never come up;
    what is *held* (ERRORS, ISOLATED) does not while it is. *interface_up* is the host's own switch, which leaves the
    cable alone. *turn* counts changes, so that what was planned before the last one is void.
    """

    __slots__ = (
        "admin_up", "broken", "end", "held", "injection", "interface_up", "line", "logical", "mark", "node", "physical",
        "rate_gbps", "registers", "site", "tally", "turn", "wear",
    )  # fmt: skip

    def __init__(
        self, node: Node, end: End, *, rate_gbps: float, site: Site | None, broken: bool, copper: bool = False
    ) -> None:
        self.node = node
        self.end = end
        self.rate_gbps = rate_gbps
        self.line = line_kind(rate_gbps, ethernet=node.ethernet, copper=copper)
        self.site = site
        self.broken = broken
        self.admin_up = self.interface_up = True
        self.held: set[str] = set()
        self.physical = POLLING if broken else LINK_UP
        self.logical = DOWN if broken else ACTIVE
        self.injection: Injection | None = None
        self.wear = UNWORN
        self.mark = UNMARKED
        self.turn = 0
        self.registers: dict[str, int] = {}  # what was written into registers that change nothing here
        self.tally = PortTally()

    @property
    def can_train(self) -> bool:
        """Whether it would come up with a partner that can."""
        return self.admin_up and not self.broken and not self.held

    @property
    def active(self) -> bool:
        """Whether data passes."""
        return self.logical == ACTIVE and self.interface_up

    @property
    def kernel_physical(self) -> int:
        """The physical state that its own host's kernel sees: an interface that is off looks disabled."""
        return self.physical if self.interface_up else DISABLED

    @property
    def kernel_logical(self) -> int:
        """The logical state that the kernel sees."""
        return self.logical if self.interface_up else DOWN

    @property
    def kernel_up(self) -> bool:
        """Whether the kernel sees a link."""
        return self.kernel_physical == LINK_UP

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
