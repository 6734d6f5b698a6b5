"""``lspci``: serial and part numbers of RNICs, from their vital product data (VPD, PCI Local Bus 3.0, appendix I)."""

from __future__ import annotations

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


def ask(tool: str = "lspci") -> tuple[str, ...]:
    """All RNICs of NVIDIA, with PCI domains; only root is told the VPD."""
    return (program(tool), "-D", "-vv", "-d", NVIDIA)


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, Vpd]:
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
