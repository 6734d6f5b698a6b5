"""``nvidia-smi --query-gpu``: which GPUs are in a host."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole_lines

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


def ask(tool: str = "nvidia-smi") -> tuple[str, ...]:
    """All GPUs, one line each."""
    return (program(tool), f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[GpuIdentity, ...]:
    """Raises ToolError with the tool's own words, UnreadableOutput for a line that is no GPU."""
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
