"""``ibroute LID``: the forwarding table of one switch of an InfiniBand fabric, LID to port (infiniband-diags)."""

from __future__ import annotations

import re

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole, whole_lines

LIDS_MOST = 0xBFFF
"""The highest unicast LID (InfiniBand specification, volume 1)."""

_ROW = re.compile(r"0x(?P<lid>[0-9a-f]{4}) (?P<port>\d{3})(?: +:.*)?", re.ASCII)
_END = re.compile(r"(?P<count>\d+) (?:valid )?lids? dumped ?", re.ASCII)


def argv(lid: int, *, tool: str = "ibroute") -> tuple[str, ...]:
    """Ask for the table of the switch with this LID; who is at the end of each route is not asked (``-n``)."""
    return (program(tool), "-n", str(whole(lid, "LID", at_least=1, at_most=LIDS_MOST)))


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[int, int]:
    """
    LID to port; 0 is the switch itself. LIDs without a route are missing.

    Raises ToolError with the tool's own words, UnreadableOutput when the closing line is missing or counts otherwise.
    """
    need_success("ibroute", stdout, stderr, exit_status)
    found: dict[int, int] = {}
    for line in whole_lines(stdout):
        row = _ROW.fullmatch(line.rstrip())
        if row:
            found[int(row["lid"], 16)] = int(row["port"])
        end = _END.fullmatch(line)
        if end:
            if int(end["count"]) != len(found):
                raise UnreadableOutput(f"ibroute: {len(found)} routes, and {line.strip()!r} at the end")
            return found
    raise UnreadableOutput(f"ibroute: the closing line is missing: output was cut at {stdout[-80:]!r}")
