"""Why injected bit errors may show in counters and not in bandwidth."""

from __future__ import annotations

from fabric.model.change import Change

CLIFF_FROM, CLIFF_TO = 7e-4, 2e-3
"""
Raw bit error ratio between which RS(544,514) ("KP4") goes from repairing nearly every codeword to none worth having.

At 7e-4 a packet in 60,000 is lost, at 1e-3 one in 900, at 2e-3 half of them (binomial model of the code, sim/fec.py).
"""

UNCHANGED = 0.95
"""From this share on a bandwidth counts as kept (a choice, as ``cover.TOLERANCE``)."""


def corrected(change: Change) -> str:
    """What forward error correction makes of a ``ber`` change, in words; empty when it does not hide it."""
    ber = change.spec.raw_ber
    if not ber or float(ber) >= CLIFF_FROM:
        return ""
    cliff = f"{_ber(CLIFF_FROM)} to {_ber(CLIFF_TO)}"
    return f"raw BER {ber} is corrected by RS-FEC (cliff at about {cliff}): counters rise, bandwidth stays"


def _ber(value: float) -> str:
    mantissa, _, exponent = f"{value:.0e}".partition("e-")
    return f"{mantissa}e-{int(exponent)}"
