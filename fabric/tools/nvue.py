"""``nv``, the command line of NVUE (Cumulus Linux 5): adaptive routing, confirmed commits, a switch's ports.

Sources: NVIDIA's "NVUE Command Reference" (Config Commands; Show Commands, Adaptive Routing; Set and Unset Commands,
Adaptive Routing) and "Cumulus Linux 5.12 User Guide, NVUE CLI". Up to 5.14 the key is ``enable`` (``on``, ``off``),
since 5.15 it is ``state`` (``enabled``, ``disabled``). The reference names ``--confirm`` and ``--confirm-status`` only;
that ``--confirm-yes`` keeps the commit, and the units of its time, are from NAPALM's driver for Cumulus.

Keys of ports: ``type``, ``link`` and its ``stats`` as the REST interface of Cumulus Linux 5 prints the same tree
(NVIDIA's "NVUE API" page shows an answer); neighbours and transceivers as NAPALM's driver reads them. The keys depend
on the release; missing ones are not made up. ``in-errors`` are all frames that came in damaged. Bit errors are in
``link phy-detail``, port by port, from 5.10 on and not on Spectrum-1: keys as its reference prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.errors import UnreadableOutput
from fabric.model.sampling import module_c
from fabric.tools.driver import matching, need, need_json, need_success, plain, whole, word
from fabric.tools.interfaces import Neighbour
from fabric.tools.mlxlink import Light, Module, Optics

AR = ("router", "adaptive-routing")
"""The path of adaptive routing in NVUE's tree; below an interface as well."""

WORDS: Mapping[str, tuple[str, str]] = {
    "enable": ("off", "on"),
    "state": ("disabled", "enabled"),
    **dict.fromkeys(("ecn", "tx", "rx"), ("disable", "enable")),
}
"""Keys that can be switched, and their values for off and on."""

OF_RELEASES = ("enable", "state")
"""The keys of adaptive routing, of which a release has one."""

_LINE = re.compile(r"nv set (?:interface (?P<names>\S+) )?router adaptive-routing(?: (?P<key>\S+) (?P<value>\S+))?")
_RANGE = re.compile(r"(?P<stem>[A-Za-z][A-Za-z0-9_-]*?)(?P<from>\d{1,64})-(?P<to>\d{1,64})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_MESSAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
PORTS_MOST = 1024
"""Most interfaces with adaptive routing on one switch; a bound, far above any front panel."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key below *path*, by default that of adaptive routing, in the words of its release."""

    key: str
    value: str
    path: tuple[str, ...] = AR

    @property
    def on(self) -> bool:
        """Return whether it is on."""
        return WORDS[self.key][1] == self.value

    def turned(self, *, on: bool) -> Setting:
        """Return the same key with the value for on or off."""
        return Setting(self.key, WORDS[self.key][int(on)], self.path)

    def __str__(self) -> str:
        return f"{self.key} {self.value}"


@dataclass(frozen=True, slots=True)
class Configured:
    """
    What is set explicitly, and not by default.

    *whole*: the key that is set for the whole switch, None when none is. *interfaces*: those whose adaptive routing is
    set to on.
    """

    whole: str | None
    interfaces: tuple[str, ...]


def show(interface: str | None = None) -> tuple[str, ...]:
    """Ask for the adaptive routing of the switch or of one interface."""
    where = () if interface is None else ("interface", word(interface, "interface"))
    return ("nv", "show", *where, *AR, "-o", "json")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> Setting:
    """
    Return the setting of adaptive routing.

    Raises ToolError with the tool's own words, UnreadableOutput when not exactly one known key has a known value.
    """
    found = _shown(stdout, stderr, exit_status)
    known = [(key, found[key]) for key in OF_RELEASES if key in found] if isinstance(found, dict) else []
    if len(known) != 1 or not isinstance(known[0][1], str) or known[0][1] not in WORDS[known[0][0]]:
        raise UnreadableOutput(
            f"nv show: expected one of enable (on, off), state (enabled, disabled): {stdout[:120]!r}"
        )
    return Setting(*known[0])


def equals(setting: Setting) -> str:
    """Return a pattern (grep -E) for the line of the JSON in which a key has a value."""
    return f'"{setting.key}" *: *"{setting.value}"'


COMMANDS = ("nv", "config", "show", "-o", "commands")
"""Ask for the applied configuration as the commands that make it."""


def command_lines(stdout: str, stderr: str = "", exit_status: int = 0) -> list[str]:
    """
    Return all its lines; raises ToolError with the tool's own words, UnreadableOutput for a text without a ``nv set``.
    """
    need_success("nv config show", stdout, stderr, exit_status)
    lines = [line.strip() for line in plain(stdout).splitlines()]
    if not any(line.startswith("nv set ") for line in lines):
        raise UnreadableOutput(f"nv config show: no command in {stdout[:120]!r}")
    return lines


def read_commands(stdout: str, stderr: str = "", exit_status: int = 0) -> Configured:
    """
    Return what is set about adaptive routing.

    Raises ToolError with the tool's own words, UnreadableOutput for a text without a ``nv set`` or a line about
    adaptive routing that is not understood.
    """
    key: str | None = None
    interfaces: dict[str, None] = {}
    for line in (one for one in command_lines(stdout, stderr, exit_status) if "adaptive-routing" in one):
        found = need(_LINE.fullmatch(line), f"nv config show: not understood: {line[:160]!r}")
        if found["key"] not in OF_RELEASES:
            continue  # link-utilization-threshold and the like
        if found["names"] is None:
            key = found["key"]
        elif Setting(found["key"], found["value"]).on:
            interfaces.update(dict.fromkeys(unfolded(found["names"])))
    return Configured(key, tuple(interfaces))


def unfolded(folded: str) -> tuple[str, ...]:
    """Return the names in ``swp1-3,swp9`` one by one; raises UnreadableOutput for what is no list of interfaces."""
    names: list[str] = []
    for part in folded.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            names.append(part)
        else:
            first, last = int(found["from"]), int(found["to"])
            names += [f"{found['stem']}{number}" for number in range(first, min(last, first + PORTS_MOST) + 1)]
    bad = next((name for name in names if not _NAME.fullmatch(name)), None)
    if bad is not None or not 0 < len(names) <= PORTS_MOST:
        raise UnreadableOutput(f"nv config show: {folded[:120]!r} is no list of up to {PORTS_MOST} interfaces")
    return tuple(names)


PENDING = ("nv", "config", "diff")
"""Ask for what this account has set and not applied."""


def read_pending(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[str, ...]:
    """
    Return the lines of what is set and not applied; empty when nothing is. Raises ToolError with the tool's own words.
    """
    need_success("nv config diff", stdout, stderr, exit_status)
    return tuple(line for line in plain(stdout).splitlines() if line.strip())


def stage_set(setting: Setting) -> tuple[str, ...]:
    """Set a key for the whole switch; it is in force only when applied."""
    return ("nv", "set", *setting.path, setting.key, setting.value)


def stage_unset(setting: Setting) -> tuple[str, ...]:
    """Reset its key to the default; in force only when applied."""
    return ("nv", "unset", *setting.path, setting.key)


def apply(message: str, *, confirm_min: int | None = None) -> tuple[str, ...]:
    """
    Apply what is set; with *confirm_min* (minutes) it is rolled back then, unless it was confirmed.

    *message* is kept in the switch's history. The unit is written out: without one the reference means minutes.
    """
    timer = () if confirm_min is None else ("--confirm", f"{whole(confirm_min, 'minutes', at_least=1, at_most=1440)}m")
    return ("nv", "config", "apply", "-m", matching(_MESSAGE, message, "message"), *timer, "-y")


CONFIRM = ("nv", "config", "apply", "--confirm-yes")
"""Keep the commit that waits to be confirmed."""


def _shown(stdout: str, stderr: str, exit_status: int) -> Any:
    """
    Return the document that ``nv show`` printed; raises ToolError with its own words, UnreadableOutput without one.
    """
    need_success("nv show", stdout, stderr, exit_status)
    return need_json("nv show", plain(stdout))


_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?)([GM])", re.ASCII)
_POWER = re.compile(r"[0-9.]+ mW / (-inf|-?[0-9]{1,3}(?:\.[0-9]{1,4})?) dBm", re.ASCII)
_LIMITS = (("low-alarm-threshold", "high-alarm-threshold"), ("low-alarm-thresh", "high-alarm-thresh"))
"""Names of the limits in different releases, the newer first."""
_DARK_DBM = -40.0  # printed by mlxlink where NVUE has no number
_DEGREES = re.compile(r"(-?[0-9]{1,3}(?:\.[0-9]{1,2})?)(?: degrees)? C\b.*", re.ASCII)
_RAW, _LAST_BIN = "phy-raw-errors-lane", "rs-num-corr-err-bin15"  # RS(544,514) corrects 15 symbols a block


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """
    One port of a front panel; None: not reported. *counters* by the kernel's names, as on hosts.

    *sent_bytes* and *received_bytes*: since somebody cleared them.
    """

    up: bool
    speed_gbps: float | None
    counters: Mapping[str, int]
    mtu: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None


PORTS = ("nv", "show", "interface", "-o", "json")
"""Ask for all interfaces."""
NEIGHBOURS = ("nv", "show", "interface", "lldp", "-o", "json")
"""Ask for what all interfaces hear by LLDP."""
OPTICS = ("nv", "show", "platform", "transceiver", "detail", "-o", "json")
"""Ask for all modules."""


def line_errors(port: str) -> tuple[str, ...]:
    """Ask for the bit errors of one port before and behind the error correction."""
    return ("nv", "show", "interface", word(port, "interface"), "link", "phy-detail", "-o", "json")


def read_line_errors(stdout: str, stderr: str = "", exit_status: int = 0) -> Optics:
    """
    Return what one port has received wrong so far, all lanes together.

    Raises ToolError with the tool's own words, UnreadableOutput where a count is not a number, or nothing is counted.
    """
    shown = _shown(stdout, stderr, exit_status)
    rows = shown.items() if isinstance(shown, dict) else ()
    counts = {name: count for name, value in rows if (count := _count(name, value)) is not None}
    lanes = need([n for name, n in counts.items() if name.startswith(_RAW)], f"nv show: no {_RAW}0 in {stdout[:120]!r}")
    return Optics(
        raw_errors=sum(lanes), effective_errors=counts.get("effective-errors"), full_blocks=counts.get(_LAST_BIN)
    )


def _count(name: str, value: object) -> int | None:
    """Return a counter of ``phy-detail``, given as a number or its digits; None for names that are not read."""
    if not (name.startswith(_RAW) or name in ("effective-errors", _LAST_BIN)):
        return None
    found = re.fullmatch(r"[0-9]{1,20}", str(value), re.ASCII)
    return int(need(found, f"nv show: {name} is {str(value)[:40]!r}, no count")[0])


def read_ports(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, SwitchPort]:
    """
    Return the ports of the front panel, by name.

    Raises ToolError with the tool's own words, UnreadableOutput for what is no list of them.
    """
    found = {}
    for name, shown in _tree(stdout, stderr, exit_status):
        if shown.get("type") == "swp":
            link = _below(shown, "link")
            if link.get("oper-status") not in ("up", "down"):
                raise UnreadableOutput(f"nv show: {name} is neither up nor down: {link.get('oper-status')!r}")
            mtu, stats = link.get("mtu"), _below(link, "stats")
            up, speed = link["oper-status"] == "up", _gbps(link.get("speed"))
            sent, received = (_whole(stats.get(f"{way}-bytes")) for way in ("out", "in"))
            found[name] = SwitchPort(up, speed, _counters(link), _whole(mtu), sent, received)
    return need(found, f"nv show: no port in {stdout[:120]!r}")


def _gbps(speed: object) -> float | None:
    found = _SPEED.fullmatch(speed) if isinstance(speed, str) else None
    return None if found is None else float(found[1]) / (1.0 if found[2] == "G" else 1000.0)


def _counters(link: Mapping[str, Any]) -> dict[str, int]:
    """
    Return the counters of a link. Older releases do not count downs: there, two transitions are one down and one up.
    """
    stats = _below(link, "stats")
    downs, transitions = stats.get("carrier-down-count"), stats.get("carrier-transitions")
    if downs is None and (changes := _whole(transitions)) is not None:
        downs = changes // 2
    counted = {"link_downed": downs, "rx_crc_errors": stats.get("in-errors")}
    return {name: count for name, value in counted.items() if (count := _whole(value)) is not None}


def _whole(value: object) -> int | None:
    """Return a JSON number of 0 or more; None for anything else, such as true."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_neighbours(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Neighbour, ...]:
    """Return every neighbour that reports its name and its port; raises as ``read_ports``."""
    found = []
    for interface, shown in _tree(stdout, stderr, exit_status):
        for one in _below(_below(shown, "lldp"), "neighbor").values():
            chassis, port = _below(one, "chassis"), _below(one, "port")
            name, number = chassis.get("system-name"), port.get("name")
            if isinstance(name, str) and isinstance(number, str):
                found.append(Neighbour(interface, name, number))
    return tuple(found)


def read_optics(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, Optics]:
    """Return the module of each port that has one; raises as ``read_ports``."""
    return {
        name: Optics(
            module=Module(
                _text(shown.get("vendor-name")), _text(shown.get("vendor-pn")), _text(shown.get("vendor-sn")), None
            ),
            temperature_c=_celsius(_below(shown, "temperature").get("temperature")),
            rx=_light(shown, "rx-power"),
            tx=_light(shown, "tx-power"),
        )
        for name, shown in _tree(stdout, stderr, exit_status)
    }


def _light(shown: Mapping[str, Any], way: str) -> Light | None:
    """Return the light; None without alarm limits, which copper does not have."""
    numbered = sorted(_below(shown, "channel").items(), key=lambda one: (len(one[0]), one[0]))
    rows = [_below(channel, way) for _, channel in numbered]
    levels = [level for row in rows if (level := _dbm(row.get("power"))) is not None]
    for names in _LIMITS:
        limits = [limit for name in names if rows and (limit := _dbm(rows[0].get(name))) is not None]
        if len(levels) == len(rows) and len(limits) == 2 and limits[0] < limits[1]:
            return Light(tuple(levels), limits[0], limits[1], _dbm(rows[0].get("low-warning-threshold")))
    return None


def _celsius(degrees: object) -> float | None:
    found = _DEGREES.fullmatch(degrees) if isinstance(degrees, str) else None
    return None if found is None else module_c(float(found[1]))


def _dbm(power: object) -> float | None:
    found = _POWER.fullmatch(power) if isinstance(power, str) else None
    return None if found is None else _DARK_DBM if found[1] == "-inf" else float(found[1])


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _below(tree: object, key: str) -> Mapping[str, Any]:
    """Return what is below a key; empty where the key is missing."""
    found = tree.get(key) if isinstance(tree, dict) else None
    return found if isinstance(found, dict) else {}


def _tree(stdout: str, stderr: str, exit_status: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each interface, and what is shown of it."""
    document = _shown(stdout, stderr, exit_status)
    if not isinstance(document, dict) or not all(isinstance(one, dict) for one in document.values()):
        raise UnreadableOutput(f"nv show: not its interfaces: {stdout[:120]!r}")
    yield from document.items()
