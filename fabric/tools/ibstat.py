"""``ibstat``: the RDMA devices of a host and the state of their ports, as the kernel has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole_lines
from fabric.tools.infiniband import PortState

_ADAPTER = re.compile(r"CA '([A-Za-z0-9_.-]{1,64})'")
_PORT = re.compile(r"\s+Port ([0-9]{1,3}):", re.ASCII)
_ROW = re.compile(r"\s+([A-Za-z][A-Za-z ]{0,30}): ?(.*)")
_GUID = re.compile(r"0x[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class AdapterPort:
    """One port; *rate_gbps* as the kernel rounds it, *link_layer* ``InfiniBand`` or ``Ethernet``."""

    device: str
    number: int
    state: PortState
    rate_gbps: float
    lid: int
    guid: int
    link_layer: str


def adapters(*, tool: str = "ibstat") -> tuple[str, ...]:
    """Ask for all devices."""
    return (program(tool),)


def read_adapters(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[AdapterPort, ...]:
    """
    Every port; none where there is no device: ibstat then prints nothing and exits 0.

    Raises ToolError with the tool's own words, UnreadableOutput where a port is not told whole.
    """
    need_success("ibstat", stdout, stderr, exit_status)
    if stdout and not stdout.endswith("\n"):
        raise UnreadableOutput(f"ibstat: it was cut: {stdout[-60:]!r}")
    found: list[AdapterPort] = []
    device, number, rows = "", 0, dict[str, str]()
    for line in [*whole_lines(stdout), "CA ''"]:
        adapter, port = _ADAPTER.fullmatch(line.rstrip()), _PORT.fullmatch(line.rstrip())
        if adapter or port or line == "CA ''":
            if number:
                found.append(_port(device, number, rows))
            device = adapter[1] if adapter else device
            number, rows = int(port[1]) if port else 0, {}
        elif line.strip():
            row = _ROW.fullmatch(line.rstrip())
            if row is None or not device:
                raise UnreadableOutput(f"ibstat: neither device, port nor value: {line.strip()[:120]!r}")
            rows.setdefault(row[1], row[2])
    return tuple(found)


def _port(device: str, number: int, rows: Mapping[str, str]) -> AdapterPort:
    try:
        rate, lid, guid = rows["Rate"], rows["Base lid"], rows["Port GUID"]
        state = PortState(rows["State"], rows["Physical state"])
        layer = {"IB": "InfiniBand"}.get(rows["Link layer"], rows["Link layer"])
        numbers = re.fullmatch(r"[0-9]{1,5}(\.[0-9])?", rate, re.ASCII) and re.fullmatch(r"[0-9]{1,6}", lid, re.ASCII)
        if not numbers or not _GUID.fullmatch(guid) or layer not in ("InfiniBand", "Ethernet"):
            raise UnreadableOutput(f"ibstat: {device}/{number}: rate {rate!r}, lid {lid!r}, GUID {guid!r}, {layer!r}")
    except KeyError as exc:
        raise UnreadableOutput(f"ibstat: {device}/{number} has no {exc}: {sorted(rows)}") from None
    return AdapterPort(device, number, state, float(rate), int(lid), int(guid, 16), layer)
