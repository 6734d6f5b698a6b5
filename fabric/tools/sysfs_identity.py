"""The kernel's files about what RDMA devices are, read with ``grep``: GUID, firmware, board, PCI address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools.argument import word
from fabric.tools.said import complaint, whole_lines
from fabric.tools.sysfs import ROOT

FILES = ("node_guid", "fw_ver", "board_id", "device/uevent")

_LINE = re.compile(rf"{ROOT}/([^/:]+)/({'|'.join(FILES)}):(.*)")
_SHAPES = {
    "node_guid": re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}", re.ASCII),
    "fw_ver": re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}", re.ASCII),
    "board_id": re.compile(r"[!-~]{1,64}", re.ASCII),
    "PCI_SLOT_NAME": re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device; None: its file is not there. *board_id* (PSID) says which firmware images fit it."""

    node_guid: str | None
    firmware: str | None
    board_id: str | None
    pci_address: str | None


def ask(devices: Sequence[str]) -> tuple[str, ...]:
    """``grep -H .`` says each line with its file."""
    return ("grep", "-H", ".", *(f"{ROOT}/{word(device, 'device')}/{name}" for device in devices for name in FILES))


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, RdmaDevice]:
    """
    Devices by name; one that is not there is left out (``grep`` then exits 2 and says so).

    Raises ToolError when nothing could be read, UnreadableOutput for a value that is none.
    """
    said: dict[str, dict[str, str]] = {}
    for line in whole_lines(stdout):
        found = _LINE.fullmatch(line)
        if not found:
            raise UnreadableOutput(f"sysfs: not a line of these files: {line[:80]!r}")
        name, value = found[2], found[3]
        if name == "device/uevent":
            name, _, value = value.partition("=")
        shape = _SHAPES.get(name)
        if shape is None:
            continue
        if not shape.fullmatch(value) or name in said.get(found[1], {}):
            raise UnreadableOutput(f"sysfs: {found[1]}: {name} is {value[:60]!r}, or there twice")
        said.setdefault(found[1], {})[name] = value
    if not said:
        raise ToolError(f"grep: exit {exit_status}: {complaint(stdout, stderr)}")
    return {
        device: RdmaDevice(got.get("node_guid"), got.get("fw_ver"), got.get("board_id"), got.get("PCI_SLOT_NAME"))
        for device, got in said.items()
    }
