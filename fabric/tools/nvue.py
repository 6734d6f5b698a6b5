"""
``nv``, the command line of NVUE (Cumulus Linux 5): adaptive routing, and commits that must be confirmed.

Sources: NVIDIA's "NVUE Command Reference" (Config Commands; Show Commands, Adaptive Routing; Set and Unset Commands,
Adaptive Routing) and "Cumulus Linux 5.12 User Guide, NVUE CLI". Up to 5.14 the key is ``enable`` (``on``, ``off``),
since 5.15 it is ``state`` (``enabled``, ``disabled``). The reference names ``--confirm`` and ``--confirm-status`` only;
that ``--confirm-yes`` keeps the commit, and the units of its time, are from NAPALM's driver for Cumulus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, whole, word

AR = ("router", "adaptive-routing")
"""Where adaptive routing is in NVUE's tree; below an interface as well."""

WORDS: Mapping[str, tuple[str, str]] = MappingProxyType({"enable": ("off", "on"), "state": ("disabled", "enabled")})
"""The key that a release has, and its values for off and on."""

_LINE = re.compile(r"nv set (?:interface (?P<names>\S+) )?router adaptive-routing(?: (?P<key>\S+) (?P<value>\S+))?")
_PORTS = re.compile(r"(?P<stem>[A-Za-z][A-Za-z0-9_-]*?)(?P<from>\d+)-(?P<to>\d+)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_MESSAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
PORTS_MOST = 1024
"""Interfaces with adaptive routing on one switch; a bound, far above any front panel."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Adaptive routing of a switch or of an interface, in the words of its release."""

    key: str
    value: str

    @property
    def on(self) -> bool:
        """Whether it is on."""
        return WORDS[self.key][1] == self.value

    def turned(self, *, on: bool) -> Setting:
        """The same key with the value for on or off."""
        return Setting(self.key, WORDS[self.key][int(on)])

    def __str__(self) -> str:
        return f"{self.key} {self.value}"


@dataclass(frozen=True, slots=True)
class Configured:
    """
    What is set, and not merely there by default.

    *whole*: the key that is set for the whole switch, None when none is. *interfaces*: those whose adaptive routing is
    set to on.
    """

    whole: str | None
    interfaces: tuple[str, ...]


def show(interface: str | None = None) -> tuple[str, ...]:
    """Ask how adaptive routing is, of the switch or of one interface."""
    where = () if interface is None else ("interface", word(interface, "interface"))
    return ("nv", "show", *where, *AR, "-o", "json")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> Setting:
    """
    How adaptive routing is.

    Raises ToolError with the tool's own words, UnreadableOutput when not exactly one known key has a known value.
    """
    need_success("nv show", stdout, stderr, exit_status)
    try:
        found = json.loads(plain(stdout))
    except (ValueError, RecursionError) as exc:
        raise UnreadableOutput(f"nv show: no JSON in {stdout[:120]!r}") from exc
    known = [(key, found[key]) for key in WORDS if key in found] if isinstance(found, dict) else []
    if len(known) != 1 or not isinstance(known[0][1], str) or known[0][1] not in WORDS[known[0][0]]:
        raise UnreadableOutput(
            f"nv show: expected one of enable (on, off), state (enabled, disabled): {stdout[:120]!r}"
        )
    return Setting(*known[0])


def equals(setting: Setting) -> str:
    """A pattern (grep -E) for the line of the JSON in which a key has a value."""
    return f'"{setting.key}" *: *"{setting.value}"'


def commands() -> tuple[str, ...]:
    """Ask for the applied configuration as the commands that make it."""
    return ("nv", "config", "show", "-o", "commands")


def read_commands(stdout: str, stderr: str = "", exit_status: int = 0) -> Configured:
    """
    What of adaptive routing is set.

    Raises ToolError with the tool's own words, UnreadableOutput for a text without a ``nv set`` or a line about
    adaptive routing that is not understood.
    """
    need_success("nv config show", stdout, stderr, exit_status)
    lines = [line.strip() for line in plain(stdout).splitlines()]
    if not any(line.startswith("nv set ") for line in lines):
        raise UnreadableOutput(f"nv config show: no command in {stdout[:120]!r}")
    key: str | None = None
    interfaces: dict[str, None] = {}
    for line in (one for one in lines if "adaptive-routing" in one):
        found = _LINE.fullmatch(line)
        if found is None:
            raise UnreadableOutput(f"nv config show: not understood: {line[:160]!r}")
        if found["key"] not in WORDS:
            continue  # link-utilization-threshold and the like
        if found["names"] is None:
            key = found["key"]
        elif Setting(found["key"], found["value"]).on:
            interfaces.update(dict.fromkeys(ports(found["names"])))
    return Configured(key, tuple(interfaces))


def ports(folded: str) -> tuple[str, ...]:
    """``swp1-3,swp9`` one by one; UnreadableOutput for what is no list of interfaces."""
    names: list[str] = []
    for part in folded.split(","):
        found = _PORTS.fullmatch(part)
        if found is None:
            names.append(part)
        else:
            first, last = int(found["from"]), int(found["to"])
            names += [f"{found['stem']}{number}" for number in range(first, min(last, first + PORTS_MOST) + 1)]
    bad = next((name for name in names if not _NAME.fullmatch(name)), None)
    if bad is not None or not 0 < len(names) <= PORTS_MOST:
        raise UnreadableOutput(f"nv config show: {folded[:120]!r} is no list of up to {PORTS_MOST} interfaces")
    return tuple(names)


def pending() -> tuple[str, ...]:
    """Ask what this account has set and not applied."""
    return ("nv", "config", "diff")


def read_pending(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[str, ...]:
    """The lines of what is set and not applied; empty when nothing is. ToolError with the tool's own words."""
    need_success("nv config diff", stdout, stderr, exit_status)
    return tuple(line for line in plain(stdout).splitlines() if line.strip())


def put(setting: Setting) -> tuple[str, ...]:
    """Set it for the whole switch; in force only when applied."""
    return ("nv", "set", *AR, setting.key, setting.value)


def drop(key: str) -> tuple[str, ...]:
    """Leave it to its default; in force only when applied."""
    return ("nv", "unset", *AR, key)


def apply(message: str, *, confirm_min: int | None = None) -> tuple[str, ...]:
    """
    Apply what is set; with *confirm_min* (minutes) it is rolled back then, unless it was confirmed.

    *message* stands in the switch's history. The unit is written: without one the reference means minutes.
    """
    if not _MESSAGE.fullmatch(message):
        raise ValueError(f"message is {message!r}, which a command line could misread")
    timer = () if confirm_min is None else ("--confirm", f"{whole(confirm_min, 'minutes', at_least=1, at_most=1440)}m")
    return ("nv", "config", "apply", "-m", message, *timer, "-y")


def confirm() -> tuple[str, ...]:
    """Keep what waits to be confirmed."""
    return ("nv", "config", "apply", "--confirm-yes")
