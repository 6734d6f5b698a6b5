"""Bit errors so bad that the link cannot be kept: it recovers more and more often, and in the end goes down."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fabric.sim.fec import any_of, code_of
from fabric.sim.phy import PLR_CELL_BYTES, post_fec

if TYPE_CHECKING:
    from fabric.sim.port import Port

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


def bad_codewords(port: Port) -> float:
    """The share of what a port sends that arrives beyond repair; injected errors only, a healthy line has none."""
    now = port.injection
    if now is None:
        return 0.0
    return _bad(port.line.fec, port.line.raw_ber, now.ber, raw=now.kind == 1)


@lru_cache(maxsize=256)
def _bad(fec: str, own_ber: float, injected_ber: float, *, raw: bool) -> float:
    cell_bits = PLR_CELL_BYTES * 8
    if not raw:  # behind the FEC: nothing repairs it
        return any_of(min(0.5, injected_ber), cell_bits)
    ber = min(0.5, own_ber + injected_ber)
    return any_of(ber, cell_bits) if code_of(fec) is None else post_fec(ber, fec=fec).codeword_error


def breaks_link(port: Port) -> bool:
    """Whether what a port sends takes its link down."""
    return bad_codewords(port) > DOWN_SHARE


def recoveries_per_s(port: Port) -> float:
    """How often its partner goes through recovery while the link stays up."""
    share = bad_codewords(port)
    return share * RECOVERIES_PER_S if share >= RECOVERY_SHARE else 0.0
