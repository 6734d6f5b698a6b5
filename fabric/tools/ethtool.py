"""``ethtool -S``: what the driver of an interface counts, by the driver's own names."""

from __future__ import annotations

import re

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, program, whole_lines, word

_HEAD = "NIC statistics:"
_ROW = re.compile(r"\s+(\S.{0,62}\S): ([0-9]{1,20})", re.ASCII)


def statistics(interface: str, *, tool: str = "ethtool") -> tuple[str, ...]:
    """Ask for all counters of an interface."""
    return (program(tool), "-S", word(interface, "interface"))


def read_statistics(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, int]:
    """
    Every counter. Of mlx5 ``rx_corrected_bits_phy`` is the sum of ``rx_err_lane_N_phy``.

    Raises ToolError with the tool's own words, UnreadableOutput where a line is no counter or one is there twice.
    """
    need_success("ethtool", stdout, stderr, exit_status)
    head, *lines = whole_lines(stdout) or [""]
    if head.strip() != _HEAD or not stdout.endswith("\n"):
        raise UnreadableOutput(f"ethtool: no whole list of statistics: {stdout[:60]!r} ... {stdout[-60:]!r}")
    found: dict[str, int] = {}
    for line in filter(str.strip, lines):
        row = _ROW.fullmatch(line.rstrip())
        if row is None or row[1] in found:
            raise UnreadableOutput(f"ethtool: not a counter, or there twice: {line.strip()[:120]!r}")
        found[row[1]] = int(row[2])
    return found
