"""
``ethtool --json -m``: the limits that the module of an Ethernet port has for its light, alarm and warning.

The JSON form came with the netlink patches of 2025 ("Add JSON output to --module-info"); older releases refuse both
options together. Light itself is not read: a twin-port module tells the lanes of both ports, and of unused ones 0.
"""

from collections.abc import Mapping
from math import log10

from fabric.errors import UnreadableOutput
from fabric.tools.driver import label, need_json, need_success, word
from fabric.tools.mlxlink import Light, Module, Optics

Told = Mapping[str, object]
_MOST_MW = 1e4  # 40 dBm; no module has a tenth of it


def module(interface: str) -> tuple[str, ...]:
    """Ask for the module behind an interface; only root is answered."""
    return ("ethtool", "--json", "-m", word(interface, "interface"))


def read_module(stdout: str, stderr: str = "", exit_status: int = 0) -> Optics:
    """
    The module and its limits; copper has none.

    Raises ToolError with the tool's own words, UnreadableOutput where it is no such document.
    """
    need_success("ethtool", stdout, stderr, exit_status)
    document = need_json("ethtool", stdout)
    if not isinstance(document, list) or len(document) != 1 or not isinstance(document[0], dict):
        raise UnreadableOutput(f"ethtool: not the one module that was asked for: {stdout[:80]!r}")
    told: Told = document[0]
    vendor, part_number, serial = (_text(told, f"vendor_{name}") for name in ("name", "pn", "sn"))
    return Optics(
        module=Module(vendor, part_number, serial, None),
        rx=_limits(told.get("laser_rx_power")),
        tx=_limits(told.get("laser_output_power")),
    )


def _limits(told: object) -> Light | None:
    """Printed in mW (for people too in dBm); None where they are not whole, or no light lies between them."""
    of = told if isinstance(told, dict) else {}
    low, high, warn = (_dbm(of.get(f"{name}_threshold")) for name in ("low_alarm", "high_alarm", "low_warning"))
    return None if low is None or high is None or low >= high else Light((), low, high, warn)


def _dbm(milliwatts: object) -> float | None:
    known = isinstance(milliwatts, int | float) and not isinstance(milliwatts, bool) and 0.0 < milliwatts <= _MOST_MW
    return round(10.0 * log10(milliwatts), 2) if known else None  # type: ignore[arg-type]


def _text(told: Told, name: str) -> str | None:
    value = told.get(name)
    return label("ethtool", name, value) if isinstance(value, str) else None
