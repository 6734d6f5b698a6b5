"""``iblinkinfo -l``: every port of the InfiniBand fabric, one line each, with what is at the other end of its cable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, program

_NEAR = r'(?P<guid>0x[0-9a-f]{16}) "(?P<description>.*?)" +(?P<lid>\d{1,6}) +(?P<port>\d{1,4})\[[^\]]*\] '
_STATE = r"==\((?P<speed>.*?) *(?P<state>[A-Za-z?]+)/ *(?P<physical>[A-Za-z?]+)\)==>"
_FAR = r' +(?P<far_guid>0x[0-9a-f]{16}) +(?P<far_lid>\d{1,6}) +(?P<far_port>\d{1,4})\[[^\]]*\] "(?P<far>.*)" \(.*\)'
_LINE = re.compile(_NEAR + _STATE + r"(?:" + _FAR + r'| +\[ *\] "" \( *\)| +"Port not available")', re.ASCII)


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable; *guid* is the port's on an adapter, the node's on a switch."""

    guid: int
    description: str
    lid: int
    port: int


@dataclass(frozen=True, slots=True)
class PortLine:
    """
    One port as it was found; *peer* None: nothing there, or not to be seen (a link that is down has no peer).

    *speed* is the text as printed (``4X 53.125 Gbps``, ``???``), empty when there is none.
    """

    end: End
    speed: str
    state: str
    physical_state: str
    peer: End | None

    @property
    def active(self) -> bool:
        """Traffic passes."""
        return self.state == "Active" and self.physical_state == "LinkUp"


# How switches of MLNX-OS describe themselves: MF0;name:MQM8700/U1.
_MANAGED = re.compile(r"MF\d+;(?P<name>[^:]+):.*")


def switch_name(description: str) -> str:
    """What a switch is called in the inventory, from its own description."""
    managed = _MANAGED.fullmatch(description)
    return managed["name"] if managed else description


def argv(*, tool: str = "iblinkinfo") -> tuple[str, ...]:
    """Ask for all ports, one line each."""
    return (program(tool), "-l")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[PortLine, ...]:
    """
    Every port, in the order printed; warnings between the lines are passed over.

    Raises ToolError with the tool's own words, UnreadableOutput when a line is not whole or none is there.
    """
    need_success("iblinkinfo", stdout, stderr, exit_status)
    lines = [line for line in plain(stdout).split("\n") if line.startswith("0x")]
    if not lines or not stdout.endswith("\n"):
        raise UnreadableOutput(f"iblinkinfo: no whole list of ports: it ends with {stdout[-80:]!r}")
    return tuple(_port(line) for line in lines)


def switches(ports: Iterable[PortLine]) -> frozenset[int]:
    """The GUIDs of switches: they are listed with more than one port (each port of an adapter has its own GUID)."""
    count = Counter(port.end.guid for port in ports)
    return frozenset(guid for guid, times in count.items() if times > 1)


def _port(line: str) -> PortLine:
    found = _LINE.fullmatch(line.rstrip())
    if not found:
        raise UnreadableOutput(f"iblinkinfo: not a port: {line[:160]!r}")
    peer = None
    if found["far_guid"]:
        peer = End(int(found["far_guid"], 16), found["far"].strip(), int(found["far_lid"]), int(found["far_port"]))
    return PortLine(
        End(int(found["guid"], 16), found["description"].strip(), int(found["lid"]), int(found["port"])),
        " ".join(found["speed"].split()),
        found["state"],
        found["physical"],
        peer,
    )
