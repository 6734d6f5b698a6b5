"""``sminfo``: which subnet manager the fabric listens to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, program

_LINE = re.compile(
    r"sminfo: sm lid (?P<lid>\d{1,6}) sm guid (?P<guid>0x[0-9a-f]{1,16}), activity count (?P<activity>\d{1,12}) "
    r"priority (?P<priority>\d{1,3}) state (?P<number>\d) (?P<state>SMINFO_[A-Z]+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class SubnetManagerInfo:
    """A subnet manager as it answers; *state* is ``MASTER``, ``STANDBY``, ``DISCOVERING`` or ``NOTACT``."""

    lid: int
    guid: int
    priority: int
    state: str


def argv(*, tool: str = "sminfo") -> tuple[str, ...]:
    """Ask the subnet manager that the own port knows."""
    return (program(tool),)


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> SubnetManagerInfo:
    """Raises ToolError with the tool's own words, UnreadableOutput when no whole line is there."""
    need_success("sminfo", stdout, stderr, exit_status)
    lines = plain(stdout).split("\n")
    for line in lines[:-1]:  # the last one may be cut
        found = _LINE.fullmatch(line.strip())
        if found:
            return SubnetManagerInfo(
                int(found["lid"]),
                int(found["guid"], 16),
                int(found["priority"]),
                found["state"].removeprefix("SMINFO_"),
            )
    raise UnreadableOutput(f"sminfo: no subnet manager in {stdout[:120]!r}")
