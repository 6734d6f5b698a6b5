"""Serial numbers and firmware of simulated parts: the same for the same slot, until a part was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.sim.hashing import mix64, text_hash

if TYPE_CHECKING:
    from fabric.sim.site import Site

FIRMWARE, OLDER_FIRMWARE = "28.41.1000", "28.39.3560"
"""Of every RNIC, and of one that is outdated (ConnectX-7, NVIDIA's release notes)."""
VBIOS = "96.00.74.00.0D"
RNIC_PART_NUMBER = "MCX75310AAS-NEAT"


def is_replaced(site: Site, part: str) -> bool:
    """Whether a part is another one than the host was delivered with; a module is ``mlx5_0:leaf``."""
    return site.faults is not None and part in site.faults.replaced


def serial_of_rnic(site: Site, device: str) -> str:
    """As NVIDIA prints them, ``MT2314X07512``: year, week, a letter and a number."""
    bits = _bits(site, device)
    return f"MT23{bits % 52 + 1:02d}X{(bits >> 8) % 100_000:05d}"


def serial_of_gpu(site: Site, gpu: str) -> str:
    """Thirteen digits."""
    return f"165{_bits(site, gpu) % 10**10:010d}"


def firmware_of(site: Site, device: str) -> str:
    """What an RNIC runs."""
    return OLDER_FIRMWARE if site.faults is not None and device in site.faults.outdated else FIRMWARE


def _bits(site: Site, part: str) -> int:
    return mix64(text_hash(f"serial {site.host.name}/{part}{' as replaced' if is_replaced(site, part) else ''}"))
