"""``mlxconfig``: whether the firmware keeps a port's light on though the port is closed (KEEP_..._LINK_UP)."""

from __future__ import annotations

import re

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, program, whole, word

# Device:, then the setting's row; a * before it says that the next boot brings another value.
_ROW = r"[\s*]*{name}\s+(?P<word>True|False)\((?P<value>[01])\)\s*"
_UNKNOWN = re.compile(r"-E- .*(doesn't support|does not support|[Uu]nknown [Pp]arameter)")


def keep_link_up(*, ethernet: bool, port: int) -> str:
    """The setting of a port: ``KEEP_ETH_LINK_UP_P1``."""
    return f"KEEP_{'ETH' if ethernet else 'IB'}_LINK_UP_P{whole(port, 'port', at_least=1, at_most=8)}"


def query(device: str, setting: str, *, tool: str = "mlxconfig") -> tuple[str, ...]:
    """Ask for one setting; nothing is written."""
    return (program(tool), "-d", word(device, "device"), "query", word(setting, "setting"))


def read(setting: str, stdout: str, stderr: str = "", exit_status: int = 0) -> bool:
    """
    Whether a setting is on; one that the device does not know is off.

    Raises ToolError with the tool's own words, UnreadableOutput when its row is not there.
    """
    if exit_status != 0 and _UNKNOWN.search(plain(stdout + stderr)):
        return False
    need_success("mlxconfig", stdout, stderr, exit_status)
    row = re.compile(_ROW.format(name=re.escape(setting)), re.ASCII)
    for line in plain(stdout).splitlines():
        found = row.fullmatch(line)
        if found and (found["word"] == "True") == (found["value"] == "1"):
            return found["value"] == "1"
    raise UnreadableOutput(f"mlxconfig: no {setting} in {stdout[-160:]!r}")
