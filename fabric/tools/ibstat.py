"""ibstat (infiniband-diags): a host's own RDMA devices and ports, where the kernel's files cannot be read."""

from __future__ import annotations

import re

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need, need_success, program, whole_lines
from fabric.tools.infiniband import PHYSICAL_STATES
from fabric.tools.sysfs import RdmaDevice, RdmaPort

STATES = ("???", "Down", "Initializing", "Armed", "Active")
"""The words for a port's logical state (ibstat.c)."""

_DEVICE = re.compile(r"CA '([^'\s/]{1,63})'", re.ASCII)
_PORT = re.compile(r"\s+Port ([0-9]{1,3}):", re.ASCII)
_ROW = re.compile(r"\s+([A-Z][A-Za-z ]{1,24}):(?: (.*))?", re.ASCII)
_GUID = re.compile(r"0x([0-9a-f]{16})", re.ASCII)
_RATE = re.compile(r"[0-9]{1,4}(?:\.[0-9])?", re.ASCII)
_FIRMWARE = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){0,3}", re.ASCII)
_LAYERS = {"InfiniBand": "infiniband", "IB": "infiniband", "Ethernet": "ethernet"}
"""``IB`` is what libibumad says of a kernel without the file link_layer (umad.c)."""

Devices = dict[str, RdmaDevice]
Ports = dict[tuple[str, int], RdmaPort]


def ask(*, tool: str = "ibstat") -> tuple[str, ...]:
    """Ask for all devices and ports of the host."""
    return (program(tool),)


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Devices, Ports]:
    """
    Devices by name and ports by device and number; both empty for a host that has none, of which ibstat prints nothing.

    Where a port's interface, a device's board and its PCI address are is not told. Raises ToolError with the tool's own
    words, UnreadableOutput for output that was cut, a port that is there twice and a value that is none.
    """
    need_success("ibstat", stdout, stderr, exit_status)
    said: dict[tuple[str, int], dict[str, str]] = {}
    at: tuple[str, int] | None = None
    for line in whole_lines(stdout):
        if device := _DEVICE.fullmatch(line):
            at = device[1], 0
        elif at and (number := _PORT.fullmatch(line)):
            at = at[0], int(number[1])
        elif at and (row := _ROW.fullmatch(line)):
            if said.setdefault(at, {}).setdefault(row[1], row[2] or "") != (row[2] or ""):
                raise UnreadableOutput(f"ibstat: {_place(at)}: {row[1]} is there twice")
            continue
        else:
            raise UnreadableOutput(f"ibstat: not a line of a device or port: {line[:80]!r}")
        if at in said:
            raise UnreadableOutput(f"ibstat: {_place(at)} is there twice")
        said[at] = {}
    if stdout and not stdout.endswith("\n"):
        raise UnreadableOutput(f"ibstat: output was cut at {stdout[-80:]!r}")
    ports = {at: _port(at, rows) for at, rows in said.items() if at[1]}
    devices = {at[0]: _device(at, rows, ports) for at, rows in said.items() if not at[1]}
    return devices, ports


def _place(at: tuple[str, int]) -> str:
    return f"{at[0]} port {at[1]}" if at[1] else at[0]


def _device(at: tuple[str, int], rows: dict[str, str], ports: Ports) -> RdmaDevice:
    """A device whose ports are all there: the last one's last line may have been cut."""
    count = sum(device == at[0] for device, _ in ports)
    if rows.get("Number of ports") != str(count):
        raise UnreadableOutput(f"ibstat: {at[0]} has {rows.get('Number of ports')!r} ports, of which {count} are told")
    guid = need(_GUID.fullmatch(rows.get("Node GUID", "")), f"ibstat: {at[0]}: no Node GUID")[1]
    firmware = rows.get("Firmware version", "")
    told = ":".join(guid[start : start + 4] for start in range(0, 16, 4))
    return RdmaDevice(told, firmware if _FIRMWARE.fullmatch(firmware) else None, None, None)


def _port(at: tuple[str, int], rows: dict[str, str]) -> RdmaPort:
    state, physical = rows.get("State"), rows.get("Physical state")
    guid, rate = _GUID.fullmatch(rows.get("Port GUID", "")), _RATE.fullmatch(rows.get("Rate", ""))
    layer = rows.get("Link layer")
    if state not in STATES or physical not in PHYSICAL_STATES or layer not in _LAYERS or not guid or not rate:
        raise UnreadableOutput(f"ibstat: {_place(at)}: not a port's state, rate, GUID and link layer: {rows!r:.160}")
    active = (state, physical) == ("Active", "LinkUp")
    return RdmaPort(active, float(rate[0]), _LAYERS[layer], int(guid[1], 16) or None, None)
