"""Forward error correction: from the bit error ratio on the wire to the codewords it cannot repair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, fsum, inf, lgamma, log, log1p
from types import MappingProxyType

SYMBOL_BITS = 10
"""Bits of one Reed-Solomon symbol, in all these codes."""


@dataclass(frozen=True, slots=True)
class Code:
    """A Reed-Solomon code: *symbols* sent for *payload_symbols* of data."""

    symbols: int
    payload_symbols: int

    @property
    def correctable(self) -> int:
        """Bad symbols that a codeword may have and still be repaired."""
        return (self.symbols - self.payload_symbols) // 2

    @property
    def payload_bits(self) -> int:
        """Data in one codeword."""
        return self.payload_symbols * SYMBOL_BITS


CODES = MappingProxyType(
    {
        "kp4": Code(544, 514),  # 50G and 100G PAM4 lanes (HDR, NDR, 200/400GbE), standard or interleaved
        "kr4": Code(528, 514),  # 25G lanes (EDR with FEC, 100GbE)
        "rs546": Code(546, 516),  # with PLR
        "ll": Code(271, 257),  # low latency
        "ll50": Code(272, 258),  # low latency, 50G lanes
    }
)
"""The codes that mlxlink names (mstflint mlxlink_enums.h, FEC modes), by our short name."""

FECS = (*CODES, "none")
"""What a link's `fec` may be; a link without (EDR on copper) is "none"."""


def require_ber(ber: float, what: str) -> None:
    """A bit error ratio is between 0 and 0.5: at 0.5 nothing is left of the signal."""
    if not 0.0 <= ber <= 0.5:
        raise ValueError(f"{what} {ber!r} is not between 0 and 0.5")


def code_of(fec: str) -> Code | None:
    """The code of a FEC mode; None for "none"."""
    if fec not in FECS:
        raise ValueError(f"there is no FEC {fec!r}; there are {', '.join(FECS)}")
    return CODES.get(fec)


def any_of(probability: float, count: float) -> float:
    """That at least one of *count* independent things happens: 1-(1-p)^count, exact for tiny p."""
    if probability <= 0.0 or count <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    return -expm1(count * log1p(-probability))


def symbol_error(ber: float) -> float:
    """That a symbol is bad: p_s = 1-(1-b)^10."""
    return any_of(ber, SYMBOL_BITS)


@lru_cache(maxsize=4096)
def uncorrectable(ber: float, code: Code) -> tuple[float, float]:
    """
    P[codeword beyond repair], and the share of all bits that are wrong after the decoder.

    P = P[Bin(n, p_s) > t]; what cannot be repaired is passed on as it came, so the bits wrong afterwards are
    b * sum_{k>t} pmf(k) k/n / p_s. Errors are taken as independent; bursts (DFE) make real links worse.
    """
    bad = symbol_error(ber)
    if bad <= 0.0:
        return 0.0, 0.0
    count, limit = code.symbols, code.correctable
    if count * bad <= limit + 1:  # the tail is the smaller part: sum it, so that it keeps its digits
        terms = [(k, _mass(k, count, bad)) for k in range(limit + 1, count + 1)]
        beyond = fsum(mass for _, mass in terms)
        symbols = fsum(k * mass for k, mass in terms)
    else:
        terms = [(k, _mass(k, count, bad)) for k in range(limit + 1)]
        beyond = 1.0 - fsum(mass for _, mass in terms)
        symbols = count * bad - fsum(k * mass for k, mass in terms)
    return min(1.0, beyond), min(ber, ber * symbols / count / bad)


def _mass(k: int, count: int, bad: float) -> float:
    """P[Bin(count, bad) = k], by logarithms: the binomial coefficients alone overflow."""
    if bad >= 1.0:
        return 1.0 if k == count else 0.0
    return exp(_log_choose(count, k) + k * log(bad) + (count - k) * log1p(-bad))


@lru_cache(maxsize=4096)
def _log_choose(count: int, k: int) -> float:
    return lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1)


def frame_loss(codeword_error: float, *, frame_bits: float, code: Code, interleave: int = 1) -> float:
    """
    That a frame is lost because one of the codewords it touches is: 1-(1-P)^(bits/payload + interleave).

    With 2-way interleave a frame lies in two codewords however short it is. IEEE 802.3cm 138.1.1: at BER 2.4e-4 the
    frame loss ratio of 64-octet frames (84 octets with preamble and gap) is below 1.7e-12 on RS(544,514).
    """
    if not 0.0 < frame_bits < inf:
        raise ValueError(f"frame_bits {frame_bits!r} is not above 0")
    return any_of(codeword_error, frame_bits / code.payload_bits + interleave)
