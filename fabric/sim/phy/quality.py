"""A link's bit errors as its users feel them: what the FEC leaves, lost bandwidth with retry, lost packets without."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, floor, fsum, inf, lgamma, log, log1p, log10
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


HEADER_BYTES = 62
"""Round a RoCEv2 payload: Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4. InfiniBand has 26 to 30: 0.8 % fewer losses."""

MTU_BYTES = 4096

PACKET_BITS = (MTU_BYTES + HEADER_BYTES) * 8
"""A full packet on the wire."""

PLR_RTT_US = 0.3
"""Round trip of one cable for link-level retry: both transceivers and some tens of metres. An estimate."""

PLR_CELL_BYTES = 642
"""What link-level retry resends at a time: one RS(544,514) codeword's payload, 5140 bits. An estimate."""

FABRIC_RTT_US = 12.0
"""Round trip across a loaded fabric (6 to 25 us); Meta's unloaded RoCE fabric: 22 us."""

MESSAGE_BYTES = 4 << 20
"""How long messages are: the last packet of one is missed by nobody but a timer. Choice."""

NO_ERRORS = "15E-255"
"""What mlxlink prints for a BER without any error seen: the largest 4-bit coefficient, the smallest magnitude."""


@dataclass(frozen=True, slots=True)
class PostFec:
    """What is left of bit errors after the FEC: codewords beyond repair, wrong bits, lost packets; all ratios."""

    codeword_error: float
    effective_ber: float
    packet_loss: float


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """
    A link with bit errors, one direction.

    A *slow* link has capacity_factor < 1 and loss 0: queues grow, and adaptive routing sees them. A *lossy* link is as
    fast as ever and drops: adaptive routing keeps using it. *raw_ber* is before the FEC, *effective_ber* after it,
    *symbol_ber* after the FEC and link-level retry. *goodput_factor* is what one flow alone at line rate gets.
    """

    capacity_factor: float
    loss: float
    raw_ber: float
    effective_ber: float
    symbol_ber: float
    goodput_factor: float


def post_fec(raw_ber: float, *, fec: str) -> PostFec:
    """
    The chain raw BER -> codeword error -> effective BER and packet loss.

    Without FEC every wrong bit costs its packet, 1-(1-b)^bits. Real receivers make errors in bursts, which the
    binomial does not know.
    """
    require_ber(raw_ber, "raw_ber")
    code = code_of(fec)
    if code is None:
        lost = any_of(raw_ber, PACKET_BITS)
        return PostFec(codeword_error=lost, effective_ber=raw_ber, packet_loss=lost)
    beyond, effective_ber = uncorrectable(raw_ber, code)
    loss = frame_loss(beyond, frame_bits=PACKET_BITS, code=code)
    return PostFec(codeword_error=beyond, effective_ber=effective_ber, packet_loss=loss)


def plr_factor(cell_error: float, *, line_rate_gbps: float) -> float:
    """
    Bandwidth left when the link itself resends (PLR): go-back-N over the cable, (1-P)/(1-P+P*N).

    N = RTT * rate / cell + 1 cells are resent per bad one: 24 at 400 Gb/s.
    """
    _above_zero(line_rate_gbps, "line_rate_gbps")
    cells = PLR_RTT_US * 1e3 * line_rate_gbps / (PLR_CELL_BYTES * 8) + 1
    return _go_back_n(cell_error, cells)


def goodput_factor(loss: float, *, rate_gbps: float) -> float:
    """
    What go-back-N leaves of a flow's rate when the fabric loses packets: (1-p)/(1-p+p*W).

    W = RTT * rate / MTU packets are resent per lost one: 146 at 400 Gb/s, 12 us and 4 KiB. Timeouts for lost tails of
    messages come on top of that and are not modelled.
    """
    if not 0.0 <= loss <= 1.0:
        raise ValueError(f"loss {loss!r} is not between 0 and 1")
    _above_zero(rate_gbps, "rate_gbps")
    return _go_back_n(loss, max(1.0, FABRIC_RTT_US * 1e3 * rate_gbps / (MTU_BYTES * 8)))


def link_quality(
    *,
    raw_ber: float | None = None,
    effective_ber: float | None = None,
    fec: str,
    plr: bool,
    line_rate_gbps: float,
) -> LinkQuality:
    """
    What a link with these bit errors carries; None where there are none of that kind.

    *effective_ber* is injected behind the FEC (PTER type Effective_BER), so the FEC does not help: packets are lost
    as 1-(1-b)^bits. Both kinds add up as independent. Real firmware takes the link down when it gives up retrying;
    from which error rate on is not published, so it is not modelled.
    """
    raw, injected = raw_ber or 0.0, effective_ber or 0.0
    require_ber(injected, "effective_ber")
    after = post_fec(raw, fec=fec)
    effective = min(0.5, _either(after.effective_ber, injected))
    if not plr:
        loss = _either(after.packet_loss, any_of(injected, PACKET_BITS))
        goodput = goodput_factor(loss, rate_gbps=line_rate_gbps)
        return LinkQuality(1.0, loss, raw, effective, effective, goodput)
    code = code_of(fec)
    cell = after.codeword_error if code else any_of(raw, PLR_CELL_BYTES * 8)
    cell = _either(cell, any_of(injected, PLR_CELL_BYTES * 8))
    capacity = plr_factor(cell, line_rate_gbps=line_rate_gbps)
    return LinkQuality(capacity, 0.0, raw, effective, 0.0, capacity)


def ber_text(ber: float) -> str:
    """
    A BER as mlxlink prints it, coefficient E-magnitude with one digit: "2E-9"; NO_ERRORS for none.

    Two small registers hold it (coefficient 4 bits, magnitude 8), so what is below 1E-254 cannot be told from none.
    """
    require_ber(ber, "ber")
    if ber < 1e-254:
        return NO_ERRORS
    magnitude = -floor(log10(ber))
    coefficient = round(ber * 10.0**magnitude)
    if coefficient == 10:  # 9.7E-10 rounds to 10E-10
        coefficient, magnitude = 1, magnitude - 1
    return f"{coefficient}E-{magnitude}"


def _either(first: float, second: float) -> float:
    """That at least one of two independent things happens, exact for tiny ones."""
    return min(1.0, first + second - first * second)


def _go_back_n(loss: float, window: float) -> float:
    """Goodput when each loss costs *window* units: (1-p)/(1-p+p*W)."""
    if loss == 0.0:
        return 1.0
    return (1.0 - loss) / (1.0 - loss + loss * window)


def _above_zero(value: float, what: str) -> None:
    if not 0.0 < value < inf:
        raise ValueError(f"{what} {value!r} is not above 0")
