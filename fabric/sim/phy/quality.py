"""The effects of a link's bit errors: what the FEC leaves, lost bandwidth with retry, lost packets without.

Then the lines of each generation: their healthy errors, injected errors, wear, and when they give up.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb, expm1, floor, log1p, log10
from types import MappingProxyType

SYMBOL_BITS = 10
"""Bits of one Reed-Solomon symbol, in all these codes."""

CODES = MappingProxyType(
    {
        "kp4": (544, 514),  # 50G and 100G PAM4 lanes (HDR, NDR, 200/400GbE), standard or interleaved
        "kr4": (528, 514),  # 25G lanes (EDR with FEC, 100GbE)
        "ll": (271, 257),  # low latency
        "ll50": (272, 258),  # low latency, 50G lanes
    }
)
"""
The Reed-Solomon codes that mlxlink names (mstflint mlxlink_enums.h, FEC modes), by our short name: symbols sent, and
data symbols among them.
"""

KP4 = "kp4"
"""The code of 50 and 100 Gb/s lanes: HDR, NDR, XDR and 200 to 800 Gb/s Ethernet."""

NO_FEC = "none"
"""A link without a code, such as EDR on copper."""


def chance_of_any(probability: float, count: float) -> float:
    """Return the chance that at least one of *count* independent events happens: 1-(1-p)^count, exact for tiny p."""
    if probability >= 1.0:
        return 1.0
    return -expm1(count * log1p(-probability))


@lru_cache(maxsize=4096)
def full_share(ber: float, fec: str) -> float:
    """Return the share of codewords with exactly as many bad symbols as can be corrected: P[Bin(n, p) = t]."""
    if fec == NO_FEC:
        return 0.0
    symbols, payload = CODES[fec]
    limit, bad = (symbols - payload) // 2, chance_of_any(ber, SYMBOL_BITS)
    return comb(symbols, limit) * bad**limit * (1.0 - bad) ** (symbols - limit)


HEADER_BYTES = 62
"""
Bytes around a RoCEv2 payload: Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4. InfiniBand has 26 to 30: 0.8 % fewer losses.
"""

MTU_BYTES = 4096
"""Payload of one full packet on these links."""

PACKET_BITS = (MTU_BYTES + HEADER_BYTES) * 8
"""Bits of a full packet on the wire."""

CODEWORD_BITS = 5440
"""Bits of an RS(544,514) codeword on the wire."""

PLR_RTT_US = 0.3
"""Round trip of one cable for link-level retry: both transceivers and some tens of metres. An estimate."""

PLR_CELL_BYTES = 642
"""Bytes that link-level retry resends at a time: one RS(544,514) codeword's payload, 5140 bits. An estimate."""

FABRIC_RTT_US = 12.0
"""Round trip across a loaded fabric (6 to 25 us); Meta's unloaded RoCE fabric: 22 us."""

MESSAGE_BYTES = 4 << 20
"""Length of messages: the loss of a message's last packet is noticed only by a timer. Choice."""

NO_ERRORS = "15E-255"
"""What mlxlink prints for a BER without any error seen: the largest 4-bit coefficient, the smallest magnitude."""


@dataclass(frozen=True, slots=True)
class PostFec:
    """What the FEC leaves of bit errors, as ratios: uncorrectable codewords, wrong bits, lost packets."""

    codeword_error: float
    effective_ber: float
    packet_loss: float


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """
    A link with bit errors, one direction.

    A *slow* link has capacity_factor < 1 and loss 0: queues grow, and adaptive routing sees them. A *lossy* link keeps
    its speed and drops packets: adaptive routing keeps using it. *raw_ber* is before the FEC, *effective_ber* after it,
    *symbol_ber* after the FEC and link-level retry. *goodput_factor* is what one flow alone at line rate gets.
    """

    capacity_factor: float
    loss: float
    raw_ber: float
    effective_ber: float
    symbol_ber: float
    goodput_factor: float

    def kept(self, *, selective: bool) -> float:
        """
        Return what one flow gets whose RNIC resends everything from a lost packet on, or (*selective*) the lost packet
        only.
        """
        return 1.0 - self.loss if selective and self.capacity_factor == 1.0 else self.goodput_factor


@lru_cache(maxsize=4096)
def post_fec(raw_ber: float, *, fec: str) -> PostFec:
    """
    Compute the chain raw BER -> codeword error -> effective BER and packet loss.

    Without FEC every wrong bit costs its packet, 1-(1-b)^bits. Else a symbol is bad with p = 1-(1-b)^10, and a codeword
    of n symbols is uncorrectable with more than t bad ones: P[Bin(n, p) > t]. It is passed on as it came, so the bits
    wrong afterwards are b * sum_{k>t} pmf(k) k/n / p, which is b * P[Bin(n-1, p) > t-1]. A packet is lost with any
    codeword that it touches: 1-(1-P)^(bits/payload + 1). Errors are taken as independent; real receivers make them in
    bursts (DFE), which is worse.
    """
    if fec == NO_FEC:
        lost = chance_of_any(raw_ber, PACKET_BITS)
        return PostFec(codeword_error=lost, effective_ber=raw_ber, packet_loss=lost)
    from scipy.special import betainc  # imported only when a port is looked at

    symbols, payload = CODES[fec]
    limit, bad = (symbols - payload) // 2, chance_of_any(raw_ber, SYMBOL_BITS)
    beyond = float(betainc(limit + 1, symbols - limit, bad))  # the tail of a binomial
    left = raw_ber * float(betainc(limit, symbols - limit, bad))
    loss = chance_of_any(beyond, PACKET_BITS / (payload * SYMBOL_BITS) + 1)
    return PostFec(codeword_error=beyond, effective_ber=left, packet_loss=loss)


def plr_factor(cell_error: float, *, line_rate_gbps: float) -> float:
    """
    Return the bandwidth left when the link itself resends (PLR): go-back-N over the cable, (1-P)/(1-P+P*N).

    N = RTT * rate / cell + 1 cells are resent per bad one: 24 at 400 Gb/s.
    """
    return go_back_n(cell_error, PLR_RTT_US * 1e3 * line_rate_gbps / (PLR_CELL_BYTES * 8) + 1)


def goodput_factor(loss: float, *, rate_gbps: float) -> float:
    """
    Return what is left of a flow's rate when the fabric loses packets, and all from a lost one on are resent.

    Go-back-N: (1-p)/(1-p+p*W); W = RTT * rate / MTU packets are resent per lost one: 146 at 400 Gb/s, 12 us and 4 KiB.
    A real RNIC waits for a timer where a resent packet is lost, too. The simulated hosts do not: they are kinder above
    0.1 %. Lost tails of messages are not modelled.
    """
    return go_back_n(loss, max(1.0, FABRIC_RTT_US * 1e-6 * rate_gbps * 1e9 / (MTU_BYTES * 8)))


def link_quality(
    *, raw_ber: float = 0.0, effective_ber: float = 0.0, fec: str, plr: bool, line_rate_gbps: float
) -> LinkQuality:
    """
    Return what a link with these bit errors carries; raises ValueError for a number that is no bit error ratio.

    *effective_ber* is injected behind the FEC (PTER type Effective_BER), so the FEC does not help: packets are lost as
    1-(1-b)^bits. Both kinds add up as independent. Real firmware takes the link down when it gives up retrying; the
    error rate at which it does so is not published, so it is not modelled.
    """
    for ber in (raw_ber, effective_ber):
        if not 0.0 <= ber <= 0.5:  # at 0.5 nothing is left of the signal
            raise ValueError(f"a bit error ratio of {ber!r} is not between 0 and 0.5")
    after = post_fec(raw_ber, fec=fec)
    effective = min(0.5, _either(after.effective_ber, effective_ber))
    if not plr:
        loss = _either(after.packet_loss, chance_of_any(effective_ber, PACKET_BITS))
        return LinkQuality(1.0, loss, raw_ber, effective, effective, goodput_factor(loss, rate_gbps=line_rate_gbps))
    cell_bits = PLR_CELL_BYTES * 8
    cell = chance_of_any(raw_ber, cell_bits) if fec == NO_FEC else after.codeword_error
    capacity = plr_factor(_either(cell, chance_of_any(effective_ber, cell_bits)), line_rate_gbps=line_rate_gbps)
    return LinkQuality(capacity, 0.0, raw_ber, effective, 0.0, capacity)


def ber_text(ber: float) -> str:
    """
    Return a BER as mlxlink prints it, coefficient E-magnitude with one digit: "2E-9"; NO_ERRORS for none.

    Two small registers hold it (coefficient 4 bits, magnitude 8), so a BER below 1E-254 looks like none.
    """
    if ber < 1e-254:
        return NO_ERRORS
    magnitude = -floor(log10(ber))
    coefficient = round(ber * 10.0**magnitude)
    if coefficient == 10:  # 9.7E-10 rounds to 10E-10
        coefficient, magnitude = 1, magnitude - 1
    return f"{coefficient}E-{magnitude}"


def _either(first: float, second: float) -> float:
    """Return the chance that at least one of two independent events happens, exact for tiny ones."""
    return min(1.0, first + second - first * second)


def go_back_n(loss: float, window: float) -> float:
    """Return goodput when each loss costs *window* units: (1-p)/(1-p+p*W)."""
    return (1.0 - loss) / (1.0 - loss + loss * window)


@dataclass(frozen=True, slots=True)
class LineKind:
    """
    One generation of links.

    *lane* is what the InfiniBand tools print, *speed* what mlxlink prints; *fec* is a key of ``CODES``, or NO_FEC.
    *raw_ber* is what a healthy port shows before the FEC: 2E-9 on 100G PAM4 lanes (a recorded NDR port), nothing on NRZ
    lanes.
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
"""The code of NDR over copper (a recorded port): it breaks down at two thirds of the raw BER at which KP4 does."""


def line_kind(line_rate_gbps: float, *, ethernet: bool, copper: bool = False) -> LineKind:
    """Return the generation with this rate, or the next faster one for rates between."""
    table = _ETHERNET if ethernet else _INFINIBAND
    found = next((kind for rate_gbps, kind in table if line_rate_gbps <= rate_gbps), table[-1][1])
    return replace(found, fec=_COPPER[0], fec_text=_COPPER[1]) if copper and found.speed == "IB-NDR" else found


RAW, EFFECTIVE = 1, 2
"""Kinds of injected errors that this firmware offers: before and after the FEC."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Errors that a port adds to what it sends, at *mantissa* x 10^-*exponent*, until *until_s*."""

    kind: int
    mantissa: int
    exponent: int
    until_s: float

    @property
    def ber(self) -> float:
        """Return the bit error ratio."""
        return self.mantissa * 10.0**-self.exponent


@dataclass(frozen=True, slots=True)
class Wear:
    """
    Errors that a bad cable or a hot module adds both ways: bit error ratios before the FEC, behind it, behind retries.
    """

    raw: float = 0.0
    effective: float = 0.0
    symbol: float = 0.0


UNWORN = Wear()


@lru_cache(maxsize=1024)
def quality_of(line: LineKind, rate_gbps: float, injection: Injection | None, wear: Wear) -> LinkQuality:
    """
    Return the quality of one direction with the healthy line's errors, injected ones and wear.

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
Share of bad codewords from which on the receiver gives the link up.

A choice: real firmware does so when link-level retry fails too often (register PLDS, ``plr_csn_retry_th`` and
``rs_fec_uncor_th``); where these thresholds are is not published.
"""

RECOVERY_SHARE = 0.01
"""Share of bad codewords from which on a link that stays up goes through recovery now and then. A choice too."""

RECOVERIES_PER_S = 1.0
"""Recoveries a second for a share of 1: with half the codewords bad, one every two seconds. A choice."""


def bad_codewords(line: LineKind, injection: Injection | None) -> float:
    """
    Return the share of uncorrectable codewords in what a port sends; injected errors only, a healthy line has none.
    """
    if injection is None:
        return 0.0
    if injection.kind != RAW:  # behind the FEC nothing corrects it
        return chance_of_any(min(0.5, injection.ber), PLR_CELL_BYTES * 8)
    ber = min(0.5, line.raw_ber + injection.ber)
    return chance_of_any(ber, PLR_CELL_BYTES * 8) if line.fec == NO_FEC else post_fec(ber, fec=line.fec).codeword_error


def recoveries_per_s(line: LineKind, injection: Injection | None) -> float:
    """Return how often a port's partner goes through recovery while the link stays up."""
    share = bad_codewords(line, injection)
    return share * RECOVERIES_PER_S if share >= RECOVERY_SHARE else 0.0
