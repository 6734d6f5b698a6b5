"""Serial numbers, firmware and addresses of simulated parts: the same for a slot, until a part was replaced."""

from __future__ import annotations

from fabric.sim.hashing import mix64, text_hash
from fabric.sim.hosts.site import Site

# An HGX H100's bus numbers (recorded nccl-tests runs); beyond eight GPUs: choice, no two alike.
PCI_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df", *(f"{number:02x}" for number in range(0x63, 0x9B)))

_MODELS = {"a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3", "b200": "NVIDIA B200"}


# An HGX H100's RNICs (DGX H100 user guide); more than eight: choice, the next PCI domain.
_RNIC_BUSES = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")


def pci_address(number: int) -> str:
    """Where the *number*-th RNIC of a host sits on its PCI buses."""
    return f"{number // 8:04x}:{_RNIC_BUSES[number % 8]}:00.0"


def gpu_pci_address(number: int) -> str:
    """Where a GPU sits."""
    return f"0000:{pci_bus(number)}:00.0"


def pci_bus(index: int) -> str:
    """The PCI bus number of a GPU, two hexadecimal digits."""
    return PCI_BUSES[index % len(PCI_BUSES)]


def gpu_model(generation: str) -> str:
    """The name that CUDA gives a GPU of this generation."""
    return _MODELS[generation]


def visible_gpus(text: str | None, count: int) -> tuple[int, ...]:
    """
    GPU numbers that a program may use, in its order, by CUDA_VISIBLE_DEVICES.

    As CUDA does it: the list ends at the first entry that is no GPU.
    """
    if text is None:
        return tuple(range(count))
    found: list[int] = []
    for entry in text.split(","):
        number = entry.strip()
        if not number.isdigit() or int(number) >= count or int(number) in found:
            break
        found.append(int(number))
    return tuple(found)


FIRMWARE, OLDER_FIRMWARE = "28.41.1000", "28.39.3560"
"""Of every RNIC, and of one that is outdated (ConnectX-7, NVIDIA's release notes)."""
VBIOS = "96.00.74.00.0D"
RNIC_PART_NUMBER = "MCX75310AAS-NEAT"


def is_replaced(site: Site, part: str) -> bool:
    """Whether a part is another one than the host was delivered with; a module is ``mlx5_0:leaf``."""
    return site.faults is not None and part in site.faults.felt["replaced"]


def serial_of_rnic(site: Site, device: str) -> str:
    """As NVIDIA prints them, ``MT2314X07512``: year, week, a letter and a number."""
    bits = _bits(site, device)
    return f"MT23{bits % 52 + 1:02d}X{(bits >> 8) % 100_000:05d}"


def serial_of_gpu(site: Site, gpu: str) -> str:
    """Thirteen digits."""
    return f"165{_bits(site, gpu) % 10**10:010d}"


def firmware_of(site: Site, device: str) -> str:
    """What an RNIC runs."""
    return OLDER_FIRMWARE if site.faults is not None and device in site.faults.felt["outdated"] else FIRMWARE


def _bits(site: Site, part: str) -> int:
    return mix64(text_hash(f"serial {site.host.name}/{part}{' as replaced' if is_replaced(site, part) else ''}"))
