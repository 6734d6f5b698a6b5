"""``mlxlink -m``: which cable or transceiver is plugged into a port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.argument import program, word
from fabric.tools.mlxlink import sections

_TITLE = "Module Info"


@dataclass(frozen=True, slots=True)
class Module:
    """A cable or transceiver; None: it does not say (passive copper has no firmware), or nothing is plugged in."""

    vendor: str | None
    part_number: str | None
    serial: str | None
    firmware: str | None


def ask(device: str, tool: str = "mlxlink") -> tuple[str, ...]:
    """Ask for the module of a port, as JSON; only root is answered."""
    return (program(tool), "-d", word(device, "device"), "-m", "--json")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> Module:
    """Raises ToolError with the tool's own words, UnreadableOutput where nothing is said of a module."""
    rows = sections(stdout, stderr, exit_status).get(_TITLE)
    if rows is None:
        raise UnreadableOutput(f"mlxlink: no section {_TITLE!r}")
    return Module(
        vendor=_text(rows, "Vendor Name"),
        part_number=_text(rows, "Vendor Part Number"),
        serial=_text(rows, "Vendor Serial Number"),
        firmware=_text(rows, "FW Version"),
    )


def _text(rows: Mapping[str, str], name: str) -> str | None:
    value = rows.get(name, "").strip()
    if not value.isprintable() or len(value) > 64:
        raise UnreadableOutput(f"mlxlink: {name} is {value[:60]!r}")
    return None if value in ("", "N/A") else value
