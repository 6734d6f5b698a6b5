"""What a line of one generation sends: its healthy errors, injected ones, those of wear, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from fabric.sim.phy.quality import NO_FEC, PLR_CELL_BYTES, LinkQuality, any_of, link_quality, post_fec


@dataclass(frozen=True, slots=True)
class LineKind:
    """
    One generation of links.

    *lane* is what the InfiniBand tools print, *speed* what mlxlink prints; *fec* is the code's short name in
    ``quality.py``. *raw_ber* is what a healthy port shows before the FEC: 2E-9 on 100G PAM4 lanes (a recorded NDR
    port), nothing on NRZ lanes.
    """

    generation: str
    lane: str
    speed: str
    rate: str
    fec: str
    fec_text: str
    retries: bool
    raw_ber: float


_STANDARD = "Interleaved_Standard_RS_FEC_PLR - (544,514)"
_LOW = "Standard LL RS-FEC - RS(271,257)"
_INFINIBAND = (
    (56.0, LineKind("FDR", "14.0625 Gbps", "IB-FDR", "56 Gb/sec (4X FDR)", NO_FEC, "No FEC", False, 0.0)),
    (100.0, LineKind("EDR", "25.78125 Gbps", "IB-EDR", "100 Gb/sec (4X EDR)", "ll", _LOW, False, 0.0)),
    (200.0, LineKind("HDR", "53.125 Gbps", "IB-HDR", "200 Gb/sec (4X HDR)", "kp4", _STANDARD, True, 1e-9)),
    (400.0, LineKind("NDR", "106.25 Gbps", "IB-NDR", "400 Gb/sec (4X NDR)", "kp4", _STANDARD, True, 2e-9)),
    (800.0, LineKind("XDR", "212.5 Gbps", "IB-XDR", "800 Gb/sec (4X XDR)", "kp4", _STANDARD, True, 5e-9)),
)
_KR4 = "Standard RS-FEC - RS(528,514)"
_KP4 = "Standard RS-FEC - RS(544,514)"
_ETHERNET = (
    (100.0, LineKind("EDR", "25.78125 Gbps", "100G", "100 Gb/sec (4X EDR)", "kr4", _KR4, False, 0.0)),
    (200.0, LineKind("HDR", "53.125 Gbps", "200G", "200 Gb/sec (4X HDR)", "kp4", _KP4, False, 1e-9)),
    (400.0, LineKind("NDR", "106.25 Gbps", "400G", "400 Gb/sec (4X NDR)", "kp4", _KP4, False, 2e-9)),
    (800.0, LineKind("XDR", "212.5 Gbps", "800G", "800 Gb/sec (4X XDR)", "kp4", _KP4, False, 5e-9)),
)

LANES = tuple(kind.lane for _, kind in _INFINIBAND)
"""Every extended lane speed, slowest first."""


_COPPER = ("ll50", "Ethernet_Consortium_LL_50G_RS_FEC_PLR -(272,257+1)")
"""The code of NDR over copper (a recorded port): its cliff lies at two thirds of the raw BER of KP4's."""


def line_kind(line_rate_gbps: float, *, ethernet: bool, copper: bool = False) -> LineKind:
    """The generation whose rate this is, the next faster one for rates between."""
    table = _ETHERNET if ethernet else _INFINIBAND
    found = next((kind for rate_gbps, kind in table if line_rate_gbps <= rate_gbps), table[-1][1])
    return replace(found, fec=_COPPER[0], fec_text=_COPPER[1]) if copper and found.speed == "IB-NDR" else found


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
        effective_ber=min(0.5, effective),
        fec=line.fec,
        plr=line.retries,
        line_rate_gbps=rate_gbps,
    )
    symbol = min(0.5, quality.symbol_ber + wear.symbol)
    return replace(quality, raw_ber=min(0.5, raw + effective), symbol_ber=symbol)


DOWN_SHARE = 0.5
"""
From this share of bad codewords on the receiver gives the link up.

A choice: real firmware does so when link-level retry fails too often (register PLDS, ``plr_csn_retry_th`` and
``rs_fec_uncor_th``); where these thresholds are is not published.
"""

RECOVERY_SHARE = 0.01
"""From this share on a link that stays up goes through recovery now and then. A choice too."""

RECOVERIES_PER_S = 1.0
"""How often, for each bad codeword in one: half of them bad, every two seconds. A choice."""


def bad_codewords(line: LineKind, injection: Injection | None) -> float:
    """The share of what a port sends that arrives beyond repair; injected errors only, a healthy line has none."""
    if injection is None:
        return 0.0
    return _bad(line.fec, line.raw_ber, injection.ber, raw=injection.kind == RAW)


@lru_cache(maxsize=256)
def _bad(fec: str, own_ber: float, injected_ber: float, *, raw: bool) -> float:
    cell_bits = PLR_CELL_BYTES * 8
    if not raw:  # behind the FEC: nothing repairs it
        return any_of(min(0.5, injected_ber), cell_bits)
    ber = min(0.5, own_ber + injected_ber)
    return any_of(ber, cell_bits) if fec == NO_FEC else post_fec(ber, fec=fec).codeword_error


def recoveries_per_s(line: LineKind, injection: Injection | None) -> float:
    """How often its partner goes through recovery while the link stays up."""
    share = bad_codewords(line, injection)
    return share * RECOVERIES_PER_S if share >= RECOVERY_SHARE else 0.0
