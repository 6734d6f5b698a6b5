"""``perfquery``: the performance counters of a port of the InfiniBand fabric."""

from __future__ import annotations

import re

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole, whole_lines

ERRORS = {
    "symbol_errors": "SymbolErrorCounter",
    "link_error_recovery": "LinkErrorRecoveryCounter",
    "link_downed": "LinkDownedCounter",
    "receive_errors": "PortRcvErrors",
}
"""What a receiver counts, by our name; short ones stop at 255 or 65535, LinkDownedCounter always at 255."""

_ROW = re.compile(r"([A-Za-z0-9]+):\.+([0-9]{1,20})", re.ASCII)
_HEAD = re.compile(r"# Port (?:extended )?counters: .*")


def argv(lid: int, port: int, *, extended: bool = False, tool: str = "perfquery") -> tuple[str, ...]:
    """Read the counters of a port; nothing is reset."""
    whole(lid, "LID", at_least=1, at_most=0xBFFF)
    whole(port, "port", at_least=1, at_most=254)
    return (program(tool), *(("-x",) if extended else ()), str(lid), str(port))


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, int]:
    """
    Every counter by the tool's own name; those in hexadecimal are no counters.

    Raises ToolError with the tool's own words, UnreadableOutput when there is none.
    """
    need_success("perfquery", stdout, stderr, exit_status)
    lines = whole_lines(stdout)
    found: dict[str, int] = {}
    if any(_HEAD.fullmatch(line) for line in lines):
        for line in lines:
            row = _ROW.fullmatch(line.strip())
            if row and row[1] != "PortSelect":
                found.setdefault(row[1], int(row[2]))
    if not found:
        raise UnreadableOutput(f"perfquery: no counters in {stdout[:120]!r}")
    return found
