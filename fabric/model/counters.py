"""Error counters of ports: which are judged, how wide they are, and how much one grew from one reading to the next."""

from __future__ import annotations

from dataclasses import dataclass

JUDGED = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "rx_crc_errors",
    "port_rcv_errors",
    "port_xmit_discards",
)
"""Those whose growth says that a link is not well."""

HOT_C = 70.0
"""A module above it is not well: NVIDIA's UFM plugin isolates from there (TMAX), degrees Celsius."""

WIDTHS = {"link_downed": 8, "link_error_recovery": 8, "symbol_error": 16, "port_rcv_errors": 16}
"""Bits of the narrow counters (InfiniBand specification, PortCounters); all others, and wide readings, have 32."""

_NEAR = 0.25  # of the range: a counter wraps from its last quarter into its first; anything else is a reset (choice)


@dataclass(frozen=True, slots=True)
class Growth:
    """
    By how much a counter grew at least.

    *reset*: somebody cleared it, or the host booted, so that what it counted before that is not known. *full*: it
    stands at its highest value, where the narrow ones stay, so it may have counted more.
    """

    by: int
    reset: bool = False
    full: bool = False


def growth(name: str, before: int, after: int) -> Growth:
    """From one reading to the next: never negative, a narrow counter that wrapped around included."""
    bits = WIDTHS.get(name, 32)
    if max(before, after) >= 1 << bits:
        bits = 32
    top = (1 << bits) - 1
    if after >= before:
        return Growth(after - before, full=after == top)
    if before > top * (1 - _NEAR) and after < top * _NEAR:
        return Growth(after - before + top + 1)
    return Growth(after, reset=True)
