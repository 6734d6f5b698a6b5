"""Serial numbers of a host's parts: RNICs by ``lspci`` (VPD, PCI Local Bus 3.0, appendix I), GPUs by ``nvidia-smi``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools.driver import need_success, program, whole_lines

NVIDIA = "15b3:"
"""The vendor id of Mellanox, which NVIDIA's RNICs still have."""

_DEVICE = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S", re.ASCII)
_FIELD = re.compile(r"\s+\[(PN|SN)\] (?:Part|Serial) number: (\S[!-~ ]{0,63})")
_SIMPLE = re.compile(r"[!-~]+(?: [!-~]+)*")


@dataclass(frozen=True, slots=True)
class Vpd:
    """Vital product data of one device; None: it does not say."""

    part_number: str | None
    serial: str | None


def ask_rnics(tool: str = "lspci") -> tuple[str, ...]:
    """All RNICs of NVIDIA, with PCI domains; only root is told the VPD."""
    return (program(tool), "-D", "-vv", "-d", NVIDIA)


def read_rnics(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, Vpd]:
    """
    VPD by PCI address, ``0000:18:00.0``; empty where there is no such device.

    ToolError when it was refused (not root) or the tool failed, UnreadableOutput on text that is no list of devices.
    """
    need_success("lspci", stdout, stderr, exit_status)
    if "Capabilities: <access denied>" in stdout:
        raise ToolError("lspci: capabilities: access denied: serial numbers are for root alone")
    return {address: _vpd(address, lines) for address, lines in _devices(whole_lines(stdout))}


def _devices(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each device with its indented lines."""
    address, own = "", list[str]()
    for line in lines:
        found = _DEVICE.match(line)
        if found:
            if address:
                yield address, own
            address, own = found[1], []
        elif line and not (address and line[0].isspace()):
            raise UnreadableOutput(f"lspci: not a device: {line[:80]!r}")
        else:
            own.append(line)
    if address:
        yield address, own


def _vpd(address: str, lines: list[str]) -> Vpd:
    said: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found:
            value = found[2].strip()
            if found[1] in said or not _SIMPLE.fullmatch(value):
                raise UnreadableOutput(f"lspci: {address}: [{found[1]}] twice, or no plain text: {line.strip()[:80]!r}")
            said[found[1]] = value
    return Vpd(said.get("PN"), said.get("SN"))


FIELDS = ("index", "uuid", "serial", "vbios_version", "pci.bus_id")

_INDEX = re.compile(r"[0-9]{1,3}", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_PLAIN = re.compile(r"[!-~]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """One GPU as the driver numbers it; None: not supported (consumer boards have no serial number)."""

    index: int
    uuid: str
    serial: str | None
    vbios: str | None
    pci_address: str | None


def ask_gpus(tool: str = "nvidia-smi") -> tuple[str, ...]:
    """All GPUs, one line each."""
    return (program(tool), f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader")


def read_gpus(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[GpuIdentity, ...]:
    """The GPUs as listed. Raises ToolError with the tool's own words, UnreadableOutput for a line that is no GPU."""
    need_success("nvidia-smi", stdout, stderr, exit_status)
    return tuple(_gpu(line) for line in whole_lines(stdout) if line.strip())


def _gpu(line: str) -> GpuIdentity:
    try:
        values = [value.strip() for value in next(csv.reader([line]))]
    except csv.Error as exc:
        raise UnreadableOutput(f"nvidia-smi: not a line of values: {line[:80]!r}") from exc
    if len(values) != len(FIELDS) or not _INDEX.fullmatch(values[0]) or not _UUID.fullmatch(values[1]):
        raise UnreadableOutput(f"nvidia-smi: not {len(FIELDS)} values of a GPU: {line[:80]!r}")
    serial, vbios, address = (_optional(value, line) for value in values[2:])
    return GpuIdentity(int(values[0]), values[1], serial, vbios, address)


def _optional(value: str, line: str) -> str | None:
    if value in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", ""):
        return None
    if not _PLAIN.fullmatch(value):
        raise UnreadableOutput(f"nvidia-smi: {value[:60]!r} in {line[:60]!r}")
    return value
