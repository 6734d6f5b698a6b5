"""``ibportstate``: the state of a port of the InfiniBand fabric, by LID; closing and opening."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole, whole_lines

OPERATIONS = ("query", "disable", "enable", "on", "off", "reset", "down")
"""``on`` opens a port only if it is closed; ``enable`` takes an open link down for a moment."""

STATES = ("Down", "Initialize", "Armed", "Active")
PHYSICAL_STATES = (
    "No state change",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "PhyTest",
)
NOT_DISABLED = r"^PhysLinkState:[.]+(Polling|PortConfigurationTraining|LinkUp|LinkErrorRecovery)$"
"""A pattern (grep -E) for a port that is not closed."""

_HEAD = re.compile(r"(?:Initial |Peer )?(Switch|CA/RT)? ?PortInfo:")
_WHERE = re.compile(r"# Port info: (.*) port ([0-9]{1,4})", re.ASCII)
_ROW = re.compile(r"([A-Za-z]+):\.+(.*)")


@dataclass(frozen=True, slots=True)
class PortInfo:
    """One block: *where* as the tool names it (``Lid 4``), the port's number and its two states."""

    where: str
    port: int
    state: str
    physical_state: str

    @property
    def active(self) -> bool:
        """Traffic passes."""
        return self.state == "Active" and self.physical_state == "LinkUp"

    @property
    def disabled(self) -> bool:
        """It was closed by somebody."""
        return self.physical_state == "Disabled"

    def __str__(self) -> str:
        return f"{self.state}/{self.physical_state}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call said: the port, as it was *after* a change, and the port at the other end of the cable."""

    port: PortInfo
    after: PortInfo | None
    peer: PortInfo | None


def by_lid(lid: int, port: int, operation: str = "query", *, tool: str = "ibportstate") -> tuple[str, ...]:
    """Ask or change the port of the node with a LID."""
    whole(lid, "LID", at_least=1, at_most=0xBFFF)
    return (program(tool), str(lid), _port(port), _operation(operation))


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> Answer:
    """
    All blocks of one answer.

    Raises ToolError with the tool's own words, UnreadableOutput when the port's states are not both there and known.
    """
    need_success("ibportstate", stdout, stderr, exit_status)
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in whole_lines(stdout):
        title = _title(line)
        if title is not None:
            lines = found.setdefault(title, [])
        else:
            lines.append(line)
    if "port" not in found:
        raise UnreadableOutput(f"ibportstate: no port in {stdout[:120]!r}")
    blocks = {title: _block(rows) for title, rows in found.items()}
    return Answer(blocks["port"], blocks.get("after"), blocks.get("peer"))


def _title(line: str) -> str | None:
    if line.strip() == "After PortInfo set:":
        return "after"
    if not _HEAD.fullmatch(line.strip()):
        return None
    return "peer" if line.startswith("Peer") else "port"


def _block(lines: list[str]) -> PortInfo:
    rows: dict[str, str] = {}
    where: re.Match[str] | None = None
    for line in lines:
        where = where or _WHERE.fullmatch(line)
        row = _ROW.fullmatch(line)
        if row:
            rows.setdefault(row[1], row[2].strip())
    state, physical = rows.get("LinkState"), rows.get("PhysLinkState")
    if where is None or state not in STATES or physical not in PHYSICAL_STATES:
        raise UnreadableOutput(f"ibportstate: a port with state {state!r} and physical state {physical!r}")
    return PortInfo(where[1], int(where[2]), state, physical)


def _port(port: int) -> str:
    return str(whole(port, "port", at_least=1, at_most=254))


def _operation(name: str) -> str:
    if name not in OPERATIONS:
        raise ValueError(f"{name!r} is not one of {', '.join(OPERATIONS)}")
    return name
