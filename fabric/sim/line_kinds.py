"""Line rates as the tools name them, and what comes with them: lane speed, FEC, link-level retry, healthy errors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineKind:
    """
    One generation of links.

    *lane* is what the InfiniBand tools print, *speed* what mlxlink prints; *fec* is the code's short name in
    ``fabric.sim.fec``. *raw_ber* is what a healthy port shows before the FEC: 2E-9 on 100G PAM4 lanes (a recorded NDR
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
    (56.0, LineKind("FDR", "14.0625 Gbps", "IB-FDR", "56 Gb/sec (4X FDR)", "none", "No FEC", False, 0.0)),
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


def line_kind(line_rate_gbps: float, *, ethernet: bool) -> LineKind:
    """The generation whose rate this is, the next faster one for rates between."""
    table = _ETHERNET if ethernet else _INFINIBAND
    return next((kind for rate_gbps, kind in table if line_rate_gbps <= rate_gbps), table[-1][1])
