"""
Error counters that grew while a probe ran: the link carried the bytes, and was not well while it did.

A probe may measure them beside its bandwidth, as measurements named like the counters below whose number is the growth.
"""

from __future__ import annotations

from fabric.model.probe import Measurement, ProbeResult

BANDWIDTH_UNIT = "Gb/s"

GROWN = {
    "link_error_recovery": "the link recovered from errors",
    "link_downed": "the link went down",
    "symbol_error": "symbol errors were counted",
}
"""Counters (as in sysfs, ``ports/N/counters``) whose growth under a probe is worth a word, and that word."""


def bandwidths(result: ProbeResult) -> list[Measurement]:
    """The measurements that limits are about."""
    return [measured for measured in result.measurements if measured.unit == BANDWIDTH_UNIT]


def grown(result: ProbeResult) -> list[str]:
    """What the counters say, one line each: ``the link recovered from errors (+2)``; nothing when none grew."""
    if len(result.measurements) == 1:
        return []
    return [
        f"{GROWN[measured.metric]} (+{measured.value:g})"
        for measured in result.measurements
        if measured.metric in GROWN and measured.value > 0
    ]
