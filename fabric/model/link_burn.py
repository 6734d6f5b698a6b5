"""Burning links in: what is asked for, and the flows that it comes to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BurnFlow:
    """One RNIC that writes to another: *host* and *device* to *peer* and *peer_device*."""

    host: str
    device: str
    peer: str
    peer_device: str


@dataclass(frozen=True, slots=True)
class LinkBurnSpec:
    """
    Flows between RNICs, in stages that load every link to half its rate or more, with ib_write_bw.

    *routing* says which way flows go: ``ftree``, ``updn``, ``minhop`` (OpenSM's tables), ``ar`` or ``ecmp``. *stages*
    follow from that and the fabric when the phase is planned; no file gives them. The duration is Imbue's. *memory*
    ``gpu``: buffers on the nearest GPU of the RNIC where there is one, as in training; ``host``: next to the RNIC.
    """

    name: str = "link_burn"
    routing: str = "ar"
    size_bytes: int = 64 << 10
    duration_s: int = 1800
    queue_pairs: int = 2
    memory: str = "gpu"
    repeat: int = 1  # always: a longer burn-in is a longer duration
    stages: tuple[tuple[BurnFlow, ...], ...] = ()
