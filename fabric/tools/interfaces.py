"""A host's interfaces: their state and switch (``ip link``), neighbours (``lldpctl``), modules (``ethtool -m``)."""

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import log10
from typing import Any

from fabric.errors import UnreadableOutput
from fabric.tools.driver import label, need, need_json, need_success, plain, word
from fabric.tools.mlxlink import Light, Module, Optics

_MOST_MW = 1e4  # 40 dBm; no module has a tenth of it
_LINE = re.compile(
    r"\d+: (?P<name>[^\s:@]+)(?:@\S+)?: <(?P<flags>[A-Z0-9_,-]*)> .*?\bstate (?P<state>[A-Z]+)(?=[\s\\])"
)


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface; *state* is the kernel's operational state (``UP``, ``DOWN``, ``UNKNOWN`` ...)."""

    name: str
    flags: frozenset[str]
    state: str

    @property
    def up(self) -> bool:
        """Return whether the administrator wants it up, and the layer below is up."""
        return {"UP", "LOWER_UP"} <= self.flags and "NO-CARRIER" not in self.flags

    def __str__(self) -> str:
        return f"{self.name} {self.state}"


def show(interface: str) -> tuple[str, ...]:
    """Ask for one interface."""
    return ("ip", "-o", "link", "show", "dev", word(interface, "interface"))


def switch(interface: str, *, up: bool) -> tuple[str, ...]:
    """Switch an interface on or off."""
    return ("ip", "link", "set", "dev", word(interface, "interface"), "up" if up else "down")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Interface, ...]:
    """
    Return the interfaces, printed with ``-o`` or without.

    Raises ToolError with the tool's own words, UnreadableOutput when there is none.
    """
    need_success("ip", stdout, stderr, exit_status)
    found = [_LINE.match(line) for line in plain(stdout).split("\n")]
    seen = tuple(Interface(one["name"], frozenset(one["flags"].split(",")), one["state"]) for one in found if one)
    return need(seen, f"ip: no interface in {stdout[:120]!r}")


def switched_on(interface: str) -> str:
    """Return a pattern (grep -E) for an interface that is switched on."""
    escaped = re.sub(r"([.])", r"[\1]", word(interface, "interface"))
    return f"^[0-9]+: {escaped}(@[^ ]+)?: <([A-Z0-9_-]+,)*UP[,>]"


LOST_WHEN_OFF = (("-6", "address"), ("-4", "route"), ("-6", "route"))
"""What the kernel forgets about an interface that is switched off, in the order in which it can be restored."""

_STATE = frozenset({"linkdown", "dead", "offload", "rt_offload", "trap", "rt_trap", "offload_failed"})
"""Words that ``ip`` prints about a route's state, and does not accept."""


def show_lost(interface: str, what: tuple[str, str]) -> tuple[str, ...]:
    """Ask for one kind of LOST_WHEN_OFF."""
    every = ("table", "all") if what[1] == "route" else ("scope", "global")
    return ("ip", "-o", *what, "show", "dev", word(interface, "interface"), *every)


def read_lost(
    what: tuple[str, str], stdout: str, stderr: str = "", exit_status: int = 0
) -> tuple[tuple[str, ...], ...]:
    """
    Return each route or address that an administrator set, in words that ``ip`` accepts.

    Those of the kernel and of daemons are left out: they come back by themselves. Raises ToolError with the tool's own
    words, UnreadableOutput for a line that is none.
    """
    need_success("ip", stdout, stderr, exit_status)
    lines = [tuple(line.split()) for line in plain(stdout).split("\n") if line.strip()]
    if what[1] == "address":
        lines = [words for words in lines if not {"dynamic", "temporary"} & {*words}]
        flags = [tuple(word for word in ("nodad", "noprefixroute") if word in words) for words in lines]
        found = tuple(
            words[3:4] + kept if words[2:3] == ("inet6",) else () for words, kept in zip(lines, flags, strict=True)
        )
    else:
        lines = [
            words for words in lines if "proto" not in words or words[words.index("proto") + 1 :][:1] == ("static",)
        ]
        found = tuple(tuple(one for one in words if one not in _STATE) for words in lines)
    if not all(words and all(re.fullmatch(r"[A-Za-z0-9:][A-Za-z0-9:./_-]*", one) for one in words) for words in found):
        raise UnreadableOutput(f"ip: no {what[1]} in {stdout[:120]!r}")
    return found


def restore_lost(interface: str, what: tuple[str, str], words: tuple[str, ...]) -> tuple[str, ...]:
    """Restore on an interface what ``read_lost`` found; it may be there already."""
    return ("ip", *what, "replace", *words, "dev", word(interface, "interface"))


def printed_pattern(words: tuple[str, ...]) -> str:
    """Return a pattern (grep -E) for how ``show_lost`` prints it: the address, or a route's destination and gateway."""
    by = words.index("via") if "via" in words else 0
    shown = [re.sub(r"([.])", r"[\1]", one) for one in (words[0], *words[by + 1 : by + 2])]
    return rf"(^| ){shown[0]} .*via {shown[1]}( |$)" if by else rf"(^| ){shown[0]}( |$)"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What one interface hears: *switch* is the neighbour's own name, None if it has none; *port* is ``swp1``, say."""

    interface: str
    switch: str | None
    port: str

    def called(self, known: Container[str]) -> str:
        """Return which of these names the neighbour has, perhaps with a domain; empty where it has none of them."""
        name = self.switch or ""
        return next((one for one in (name, name.partition(".")[0]) if one in known), "")


NEIGHBOURS = ("lldpctl", "-f", "json")
"""Ask lldpd for all neighbours."""


def read_neighbours(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Neighbour, ...]:
    """
    Return every neighbour, in the order printed; an empty list is a valid answer.

    Raises ToolError with the tool's own words (no daemon), UnreadableOutput with what it saw instead of a list.
    """
    need_success("lldpctl", stdout, stderr, exit_status)
    try:
        heard = json.loads(stdout)["lldp"].get("interface", [])
        # One neighbour is listed as a dictionary, several as a list of dictionaries.
        return tuple(_neighbour(name, neighbour) for name, neighbour in _each(heard))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise UnreadableOutput(f"lldpctl: not its list of neighbours ({exc!r}): {stdout[:120]!r}") from exc


def _each(heard: Any) -> Iterator[tuple[str, Any]]:
    for one in heard if isinstance(heard, list) else [heard]:
        for name, neighbours in one.items():
            for each in neighbours if isinstance(neighbours, list) else [neighbours]:
                yield name, each


def _neighbour(interface: str, neighbour: Any) -> Neighbour:
    chassis, port = neighbour["chassis"], neighbour["port"]["id"]["value"]
    name = None
    if "id" not in chassis:  # named: the one key is the name
        (name,) = chassis.keys()
    if not isinstance(port, str) or not port:
        raise TypeError(f"{port!r:.60} where a text is told")
    return Neighbour(interface, name, port)


def module(interface: str) -> tuple[str, ...]:
    """Ask for the module behind an interface; only root gets an answer."""
    return ("ethtool", "--json", "-m", word(interface, "interface"))


def read_module(stdout: str, stderr: str = "", exit_status: int = 0) -> Optics:
    """
    Return the module and the limits of its light, alarm and warning; copper has none.

    The JSON form came with the netlink patches of 2025 ("Add JSON output to --module-info"); older releases refuse both
    options together. Light itself is not read: a twin-port module reports the lanes of both ports, and 0 for unused
    ones. Raises ToolError with the tool's own words, UnreadableOutput where it is no such document.
    """
    need_success("ethtool", stdout, stderr, exit_status)
    document = need_json("ethtool", stdout)
    if not isinstance(document, list) or len(document) != 1 or not isinstance(document[0], dict):
        raise UnreadableOutput(f"ethtool: not the one module that was asked for: {stdout[:80]!r}")
    fields: Mapping[str, object] = document[0]
    vendor, part_number, serial = (_text(fields, f"vendor_{name}") for name in ("name", "pn", "sn"))
    return Optics(
        module=Module(vendor, part_number, serial, None),
        rx=_limits(fields.get("laser_rx_power")),
        tx=_limits(fields.get("laser_output_power")),
    )


def _limits(thresholds: object) -> Light | None:
    """Return limits, printed in mW (for people also in dBm); None where they are incomplete, or leave no range."""
    of = thresholds if isinstance(thresholds, dict) else {}
    low, high, warn = (_dbm(of.get(f"{name}_threshold")) for name in ("low_alarm", "high_alarm", "low_warning"))
    return None if low is None or high is None or low >= high else Light((), low, high, warn)


def _dbm(milliwatts: object) -> float | None:
    known = isinstance(milliwatts, int | float) and not isinstance(milliwatts, bool) and 0.0 < milliwatts <= _MOST_MW
    return round(10.0 * log10(milliwatts), 2) if known else None  # type: ignore[arg-type]


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return label("ethtool", name, value) if isinstance(value, str) else None
