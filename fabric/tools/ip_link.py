"""``ip link``: the network interfaces of a host, and the kernel's own switch for each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, program, word

_LINE = re.compile(
    r"\d+: (?P<name>[^\s:@]+)(?:@\S+)?: <(?P<flags>[A-Z0-9_,-]*)> .*?\bstate (?P<state>[A-Z]+)(?=[\s\\])"
)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface; *state* is the kernel's operational state (``UP``, ``DOWN``, ``UNKNOWN`` ...)."""

    name: str
    flags: tuple[str, ...]
    state: str

    @property
    def up(self) -> bool:
        """Its administrator wants it up."""
        return "UP" in self.flags

    @property
    def carrier(self) -> bool:
        """The layer below is there."""
        return "LOWER_UP" in self.flags and "NO-CARRIER" not in self.flags


def show(interface: str | None = None, *, tool: str = "ip") -> tuple[str, ...]:
    """Ask for one interface, or for all."""
    return (program(tool), "-o", "link", "show", *(() if interface is None else ("dev", word(interface, "interface"))))


def switch(interface: str, *, up: bool, tool: str = "ip") -> tuple[str, ...]:
    """Switch an interface on or off."""
    return (program(tool), "link", "set", "dev", word(interface, "interface"), "up" if up else "down")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Interface, ...]:
    """
    The interfaces, with ``-o`` or without.

    Raises ToolError with the tool's own words, UnreadableOutput when there is none.
    """
    need_success("ip", stdout, stderr, exit_status)
    found = [_LINE.match(line) for line in plain(stdout).split("\n")]
    seen = tuple(Interface(one["name"], tuple(one["flags"].split(",")), one["state"]) for one in found if one)
    if not seen:
        raise UnreadableOutput(f"ip: no interface in {stdout[:120]!r}")
    return seen


def switched_on(interface: str) -> str:
    """A pattern (grep -E) for an interface that is switched on."""
    escaped = re.sub(r"([.])", r"[\1]", word(interface, "interface"))
    return f"^[0-9]+: {escaped}(@[^ ]+)?: <([A-Z0-9_-]+,)*UP[,>]"
