"""How the GPUs of a host show themselves to programs."""

from __future__ import annotations

# An HGX H100's bus numbers (recorded nccl-tests runs); beyond eight GPUs: choice, no two alike.
PCI_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df", *(f"{number:02x}" for number in range(0x63, 0x9B)))

_MODELS = {"a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3", "b200": "NVIDIA B200"}


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
