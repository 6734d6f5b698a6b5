"""Bit errors that a port sends: those that somebody injects, and those of a worn cable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from fabric.sim.line_kinds import LineKind
from fabric.sim.phy import LinkQuality, link_quality

RAW, EFFECTIVE = 1, 2
"""Kinds of injected errors that this firmware offers: before and after the FEC."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Errors that a port puts into what it sends, at *mantissa* x 10^-*exponent*, until *until_s*."""

    kind: int
    mantissa: int
    exponent: int
    until_s: float

    @property
    def ber(self) -> float:
        """The bit error ratio."""
        return self.mantissa * 10.0**-self.exponent


@dataclass(frozen=True, slots=True)
class Wear:
    """What a bad cable or a hot module adds both ways: bit error ratios before and behind the FEC, behind retries."""

    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0


UNWORN = Wear()


@lru_cache(maxsize=1024)
def quality_of(line: LineKind, rate_gbps: float, injection: Injection | None, wear: Wear) -> LinkQuality:
    """
    What a healthy line's own errors, injected ones and wear make of one direction.

    Bits that are wrong behind the FEC were wrong before it as well: counters must add up, so the raw ratio has both.
    """
    ber = 0.0 if injection is None else injection.ber
    raw = line.raw_ber + wear.raw + (ber if injection is not None and injection.kind == RAW else 0.0)
    effective = wear.effective + (ber if injection is not None and injection.kind == EFFECTIVE else 0.0)
    quality = link_quality(
        raw_ber=min(0.5, raw),
        effective_ber=min(0.5, effective) or None,
        fec=line.fec,
        plr=line.retries,
        line_rate_gbps=rate_gbps,
    )
    symbol = min(0.5, quality.symbol_ber + wear.symbol)
    return replace(quality, raw_ber=min(0.5, raw + effective), symbol_ber=symbol)
