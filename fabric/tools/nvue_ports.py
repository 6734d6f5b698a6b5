"""
``nv show`` of a switch's ports (NVUE): how they stand, what they counted, who is at the other end, and their light.

Keys: ``type``, ``link`` and its ``stats`` as the REST interface of Cumulus Linux 5 prints the same tree (NVIDIA's
"NVUE API" page shows an answer); neighbours and transceivers as NAPALM's driver for Cumulus reads them. Which keys
there are depends on the release: what is missing is not made up. ``in-errors`` are all frames that came in damaged;
bit errors are in ``link phy-detail``, port by port.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain
from fabric.tools.lldp import Neighbour
from fabric.tools.mlxlink import Light, Module, Optics

Words = tuple[str, ...]

_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?)([GM])", re.ASCII)
_POWER = re.compile(r"[0-9.]+ mW / (-inf|-?[0-9]{1,3}(?:\.[0-9]{1,4})?) dBm", re.ASCII)
_LIMITS = (("low-alarm-threshold", "high-alarm-threshold"), ("low-alarm-thresh", "high-alarm-thresh"))
"""As releases have called them, the newer first."""
_DARK_DBM = -40.0  # what mlxlink says where NVUE has no number


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """One port of a front panel; *speed_gbps* None: it does not say. *counters* by the kernel's names, as on hosts."""

    up: bool
    speed_gbps: float | None
    counters: Mapping[str, int]


def ports() -> Words:
    """Ask for all interfaces."""
    return ("nv", "show", "interface", "-o", "json")


def neighbours() -> Words:
    """Ask for what all interfaces hear by LLDP."""
    return ("nv", "show", "interface", "lldp", "-o", "json")


def optics() -> Words:
    """Ask for all modules."""
    return ("nv", "show", "platform", "transceiver", "detail", "-o", "json")


def read_ports(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, SwitchPort]:
    """
    The ports of the front panel, by name.

    Raises ToolError with the tool's own words, UnreadableOutput for what is no list of them.
    """
    found = {}
    for name, told in _tree(stdout, stderr, exit_status):
        if told.get("type") == "swp":
            link = _below(told, "link")
            if link.get("oper-status") not in ("up", "down"):
                raise UnreadableOutput(f"nv show: {name} is neither up nor down: {link.get('oper-status')!r}")
            found[name] = SwitchPort(link["oper-status"] == "up", _gbps(link.get("speed")), _counters(link))
    if not found:
        raise UnreadableOutput(f"nv show: no port in {stdout[:120]!r}")
    return found


def _gbps(speed: object) -> float | None:
    said = _SPEED.fullmatch(speed) if isinstance(speed, str) else None
    return None if said is None else float(said[1]) / (1.0 if said[2] == "G" else 1000.0)


def _counters(link: Mapping[str, Any]) -> dict[str, int]:
    """Before releases that count downs alone a down and an up are two transitions."""
    stats = _below(link, "stats")
    downs, transitions = stats.get("carrier-down-count"), stats.get("carrier-transitions")
    if downs is None and isinstance(transitions, int):
        downs = transitions // 2
    said = {"link_downed": downs, "rx_crc_errors": stats.get("in-errors")}
    return {name: value for name, value in said.items() if isinstance(value, int)}


def read_neighbours(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[Neighbour, ...]:
    """Every neighbour that tells its name and its port; raises as ``read_ports``."""
    found = []
    for interface, told in _tree(stdout, stderr, exit_status):
        for one in _below(_below(told, "lldp"), "neighbor").values():
            chassis, port = _below(one, "chassis"), _below(one, "port")
            name, number = chassis.get("system-name"), port.get("name")
            if isinstance(name, str) and isinstance(number, str):
                found.append(
                    Neighbour(interface, name, str(chassis.get("chassis-id")), number, port.get("description"))
                )
    return tuple(found)


def read_optics(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, Optics]:
    """The module of each port that has one; raises as ``read_ports``."""
    return {
        name: Optics(
            module=Module(
                _text(told.get("vendor-name")), _text(told.get("vendor-pn")), _text(told.get("vendor-sn")), None
            ),
            temperature_c=None,
            rx=_light(told, "rx-power"),
            tx=_light(told, "tx-power"),
            raw_errors=None,
            effective_errors=None,
        )
        for name, told in _tree(stdout, stderr, exit_status)
    }


def _light(told: Mapping[str, Any], way: str) -> Light | None:
    """None without alarm limits, which copper has none of."""
    numbered = sorted(_below(told, "channel").items(), key=lambda one: (len(one[0]), one[0]))
    rows = [_below(channel, way) for _, channel in numbered]
    levels = [level for row in rows if (level := _dbm(row.get("power"))) is not None]
    for names in _LIMITS:
        limits = [limit for name in names if rows and (limit := _dbm(rows[0].get(name))) is not None]
        if len(levels) == len(rows) and len(limits) == 2 and limits[0] < limits[1]:
            return Light(tuple(levels), *limits)
    return None


def _dbm(power: object) -> float | None:
    said = _POWER.fullmatch(power) if isinstance(power, str) else None
    return None if said is None else _DARK_DBM if said[1] == "-inf" else float(said[1])


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _below(told: object, key: str) -> Mapping[str, Any]:
    """What is below a key; nothing where it is not there."""
    found = told.get(key) if isinstance(told, dict) else None
    return found if isinstance(found, dict) else {}


def _tree(stdout: str, stderr: str, exit_status: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each interface, and what is told of it."""
    need_success("nv show", stdout, stderr, exit_status)
    try:
        document = json.loads(plain(stdout))
    except (ValueError, RecursionError) as exc:
        raise UnreadableOutput(f"nv show: no JSON in {stdout[:120]!r}") from exc
    if not isinstance(document, dict) or not all(isinstance(one, dict) for one in document.values()):
        raise UnreadableOutput(f"nv show: not its interfaces: {stdout[:120]!r}")
    yield from document.items()
