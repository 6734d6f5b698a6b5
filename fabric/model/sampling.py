"""Counters and sensors that are sampled on the hosts while a run works."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from fabric.model.fields.entry import Entry, InFiles, NotInFiles
from fabric.model.fields.scalars import Decimal, Duration, Flag, Span

Value = int | float | None
"""A number that was read; None: it could not be read."""


class SampleSettings(Entry):
    """
    What is sampled, and how often, from the first phase to the last; without the key nothing is.

    *pfc*: pause frames of Ethernet ports, by ethtool, seldom, where they are judged. With *congestion_s* they and the
    counters of congestion are read so often, and a storm of pauses stops the run. *traffic*: what every port sent and
    received, with those counters that are judged, and nothing else: what ``fabric monitor`` reads.
    """

    every_s: Annotated[float, Duration(1, 3600), AfterValidator(float)] = Field(10.0, validation_alias="every")
    """How often, 1s to 1h."""
    links_s: Annotated[float, Duration(10, 3600), AfterValidator(float)] = Field(60.0, validation_alias="links")
    """How often both ends of every cable, 10s to 1h."""
    counters: Annotated[bool, Flag()] = True
    """Error counters of the RNICs' ports."""
    temperatures: Annotated[bool, Flag()] = True
    """Of RNICs, modules and GPUs; clocks of GPUs."""
    congestion_s: Annotated[float, Span(0.01, 10)] | None = Field(None, validation_alias="congestion")
    """RoCE: how often marks, CNPs, retransmissions and pauses, 10ms to 10s; a storm of pauses stops the run."""
    pfc: Annotated[bool, NotInFiles()] = False
    traffic: Annotated[bool, NotInFiles()] = False


@dataclass(frozen=True, slots=True)
class CounterReading:
    """The name of one sampled number: host, part (``mlx5_0``, ``gpu3``), and counter or sensor."""

    host: str
    part: str
    name: str


@dataclass(slots=True)
class CounterCourse:
    """
    How one reading developed: it was *values[i]* from *at_s[i]* on; None: not readable.

    *until_s* is when its host was last asked.
    """

    at_s: list[float] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    until_s: float = 0.0

    def value_at(self, at_s: float) -> Value:
        """Return its value at that time; None also before the first sample."""
        place = bisect_right(self.at_s, at_s) - 1
        return self.values[place] if place >= 0 else None


@dataclass(frozen=True, slots=True)
class Samples:
    """All samples kept of a run: *every_s* between two of them, and the course of each reading."""

    every_s: float
    courses: Mapping[CounterReading, CounterCourse]


JUDGED = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "rx_crc_errors",
    "port_rcv_errors",
    "port_xmit_discards",
)
"""Counters whose growth says that a link is not well."""

TRAFFIC = ("port_xmit_data", "port_rcv_data")
"""
Counters of what a port sent and received, in words of four bytes.

Source: linux, Documentation/ABI/stable/sysfs-class-infiniband.
"""

HELD_BACK = ("np_ecn_marked_roce_packets", "rp_cnp_handled", "rx_pfc_us")
"""RoCE counters that show that senders were held back: packets marked, CNPs handled by a sender, time it was paused."""

HOT_C = 70.0
"""A module above this temperature (Celsius) is not well: NVIDIA's UFM plugin isolates from there (TMAX)."""


def module_c(celsius: float) -> float | None:
    """
    Return the temperature of a module (Celsius); None for one that no module can tell, as 255 of memory not read.

    SFF-8636 (bytes 22 and 23) and CMIS (14 and 15) have 16 bits with a sign for it, in steps of 1/256 degree.
    """
    return celsius if -128 <= celsius < 128 else None


CAPPED = {
    "link_downed": 8,
    "link_error_recovery": 8,
    "symbol_error": 16,
    "port_rcv_errors": 16,
    "port_xmit_discards": 16,
}
"""
Bits of the narrow counters (InfiniBand specification, PortCounters), which stay at their highest value.

They never wrap ("IB semantics is to cap counters": infiniband-diags, perfquery.c), so one that fell was cleared.
"""

WIDTHS = CAPPED | dict.fromkeys(("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"), 64)
"""Bits of the counters; all others, and wide readings of narrow ones, have 32."""

WIDTHS |= {f"{way}_prio{n}_pause{of}": 64 for way in ("rx", "tx") for n in range(8) for of in ("", "_duration")}
DROPS = ("rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "rx_buf_discard", "rx_cong_discard")
"""Counters of what an RNIC's port dropped, by cause (``ethtool -S``, mlx5)."""

NEARLY_FULL = "rx_buffer_passed_thres_phy"
"""The counter of how often a port's buffer was more than 85 % full."""

WIDTHS |= dict.fromkeys((*DROPS, NEARLY_FULL), 64) | {"sent_bytes": 64, "received_bytes": 64}

_NEAR = 0.25  # share of the range: a counter wraps from its last quarter into its first, else it was reset (a choice)


@dataclass(frozen=True, slots=True)
class Growth:
    """
    The least by which a counter grew.

    *reset*: it was cleared, or the host booted, so what it counted before that is not known. *full*: it is at its
    highest value, where the narrow ones stay, so it may have counted more.
    """

    by: int
    reset: bool = False
    full: bool = False


def growth(name: str, before: int, after: int) -> Growth:
    """
    Return the growth from one reading to the next.

    It is never negative, also when a counter has wrapped around.
    """
    bits = WIDTHS.get(name, 32)
    if max(before, after) >= 1 << bits:
        bits = 32
    top = (1 << bits) - 1
    if after >= before:
        return Growth(after - before, full=after == top)
    if name not in CAPPED and before > top * (1 - _NEAR) and after < top * _NEAR:
        return Growth(after - before + top + 1)
    return Growth(after, reset=True)


SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES = "symbol_errors", "link_downed", "link_recoveries"
PFC, RETRANSMITS = "pfc", "retransmits"

CRITERIA = (SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES, PFC, RETRANSMITS)
"""The criteria that a scenario may name."""

PFC_TIMES = ("rx_pfc_us", "tx_pfc_us")
"""
Time for which a port was told to wait, and told the other end to wait, microseconds (``ethtool -S``, all priorities).
"""

PFC_COUNTERS = (*PFC_TIMES, "rx_pfc_frames", "tx_pfc_frames")

_INFINIBAND: dict[str, tuple[str, ...]] = {
    SYMBOL_ERRORS: ("symbol_error",),
    LINK_DOWNED: ("link_downed",),
    LINK_RECOVERIES: ("link_error_recovery",),
    PFC: (),  # InfiniBand's credits are not PFC
    RETRANSMITS: ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err"),
}
_ETHERNET = _INFINIBAND | {
    SYMBOL_ERRORS: ("rx_crc_errors",),
    PFC: PFC_TIMES,
    RETRANSMITS: (*_INFINIBAND[RETRANSMITS], "roce_adp_retrans"),
}


MOST_RETRANSMITS = 1e12
"""The largest number that can be written (a choice: a port of 800 Gb/s has fewer packets in an hour)."""


@dataclass(frozen=True, slots=True)
class ZeroGrowth(InFiles):
    """
    What grows on a good fabric, too: how much of it is too much.

    The *criteria* are those that count. Both limits come from the scenario: nobody publishes a number.
    """

    criteria: Annotated[tuple[str, ...], NotInFiles()] = ()
    pfc_paused: Annotated[float, Decimal(0, 1)] | None = None
    """The share of an hour in which a port may be paused, in either direction: 0.05."""
    retransmits_per_hour: Annotated[float, Decimal(0, MOST_RETRANSMITS)] | None = None
    """How much the counters of retransmissions of a port may grow in an hour, together."""


def counters_of(criterion: str, *, ethernet: bool) -> tuple[str, ...]:
    """Return the counters to read for a criterion; none if the link layer has none (PFC on InfiniBand)."""
    return (_ETHERNET if ethernet else _INFINIBAND)[criterion]


def all_counters(wanted: ZeroGrowth) -> frozenset[str]:
    """Return every counter that a criterion needs, on either link layer."""
    return frozenset(
        name
        for criterion in wanted.criteria
        for ethernet in (False, True)
        for name in counters_of(criterion, ethernet=ethernet)
    )
