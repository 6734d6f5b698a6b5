"""What ports may not count while they are watched: a criterion of its own beside bandwidth (``judge: zero_growth``)."""

from __future__ import annotations

from dataclasses import dataclass

SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES = "symbol_errors", "link_downed", "link_recoveries"
PFC, RETRANSMITS = "pfc", "retransmits"

CRITERIA = (SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES, PFC, RETRANSMITS)
"""What a scenario may name."""

PFC_TIMES = ("rx_pfc_us", "tx_pfc_us")
"""How long a port was told to wait, and told the other end to wait, microseconds (``ethtool -S``, all priorities)."""

PFC_COUNTERS = (*PFC_TIMES, "rx_pfc_frames", "tx_pfc_frames")

_BOTH = {
    LINK_DOWNED: ("link_downed",),
    LINK_RECOVERIES: ("link_error_recovery",),
    RETRANSMITS: ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err"),
}
_ETHERNET = {
    SYMBOL_ERRORS: ("rx_crc_errors",),
    PFC: PFC_TIMES,
    RETRANSMITS: (*_BOTH[RETRANSMITS], "roce_adp_retrans"),
}
_INFINIBAND: dict[str, tuple[str, ...]] = {SYMBOL_ERRORS: ("symbol_error",), PFC: ()}  # its credits are no PFC


@dataclass(frozen=True, slots=True)
class ZeroGrowth:
    """
    The *criteria* that count, and how much of those that grow on a good fabric is too much.

    *pfc_paused*: the share of an hour in which a port may be paused, in either direction; *retransmits_per_hour*: how
    much the counters of ``RETRANSMITS`` may grow together. Both come from the scenario: nobody publishes a number.
    """

    criteria: tuple[str, ...]
    pfc_paused: float | None = None
    retransmits_per_hour: float | None = None


def counters_of(criterion: str, *, ethernet: bool) -> tuple[str, ...]:
    """The counters that must be read for it; empty where the link layer has none such (PFC on InfiniBand)."""
    own = _ETHERNET if ethernet else _INFINIBAND
    return own.get(criterion, _BOTH.get(criterion, ()))


def all_counters(wanted: ZeroGrowth) -> frozenset[str]:
    """Every counter that some criterion looks at, on either link layer."""
    return frozenset(
        name
        for criterion in wanted.criteria
        for ethernet in (False, True)
        for name in counters_of(criterion, ethernet=ethernet)
    )
