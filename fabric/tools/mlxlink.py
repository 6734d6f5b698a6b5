"""``mlxlink``: state, errors and module of a port, closing and opening it; ``mlxconfig``: whether a closed port keeps
light.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabric.errors import ToolError, UnreadableOutput
from fabric.model.sampling import module_c
from fabric.tools.driver import complaint, label, need, need_success, plain, whole, whole_lines, word
from fabric.tools.infiniband import LIDS_MOST, PortState

_ROW = re.compile(r"(\S.*?)\s*:\s(.*)")
_COUNTERS = "Physical Counters and BER Info"
_MODULE = "Module Info"
_HISTOGRAM = "Histogram of FEC Errors"
Rows = Mapping[str, str]


_COUNTS = {
    "effective_errors": "Effective Physical Errors",
    "symbol_errors": "Symbol Errors",
    "link_downed": "Link Down Counter",
    "link_error_recovery": "Link Error Recovery Counter",
}


@dataclass(frozen=True, slots=True)
class MlxlinkState(PortState):
    """
    One port.

    *counters*: what it has received wrong, by our names, without counters that are missing or N/A, as all are while the
    link is down. ``raw_errors`` is the sum of the lanes; ``link_downed`` is 8 bits wide on InfiniBand and stays at 255.
    """

    counters: Mapping[str, int]

    @property
    def up(self) -> bool:
        """
        Return whether the physical link is up.

        For Ethernet (and NVLink) the physical state is that of auto-negotiation, ``ETH_AN_FSM_ENABLE`` (N/A) whether
        there is a link or not (mstflint mlxlink_commander.cpp:2345); there ``State`` decides.
        """
        negotiation = self.physical_state == "N/A" or self.physical_state.startswith("ETH_AN_FSM_")
        return self.physical_state == "LinkUp" or (self.state == "Active" and negotiation)

    @property
    def disabled(self) -> bool:
        """Return whether somebody closed the port."""
        return self.physical_state.startswith("Disable") or self.state.startswith("Disable")


@dataclass(frozen=True, slots=True)
class Module:
    """A cable or transceiver; None: not reported (passive copper has no firmware), or nothing is plugged in."""

    vendor: str | None
    part_number: str | None
    serial: str | None
    firmware: str | None


@dataclass(frozen=True, slots=True)
class Light:
    """Power of each lane, the alarm limits of the module for it, and the limit below which it warns (dBm)."""

    lanes_dbm: tuple[float, ...]
    low_dbm: float
    high_dbm: float
    warn_dbm: float | None = None


@dataclass(frozen=True, slots=True)
class Optics:
    """
    A port's module and what it has received wrong; None: not reported, or not asked. Copper has no light.

    *rx*, *tx*: light received and sent. *raw_errors*, *effective_errors*: wrong bits before and behind the FEC so far.
    *full_blocks*: FEC blocks with as many wrong symbols as it can correct: one more, and the block would have been
    lost. *worst_block*: the most wrong symbols of a block since the histogram was cleared.
    """

    module: Module | None = None
    temperature_c: float | None = None
    rx: Light | None = None
    tx: Light | None = None
    raw_errors: int | None = None
    effective_errors: int | None = None
    full_blocks: int | None = None
    worst_block: int | None = None


def show(device: str, *, counters: bool = False) -> tuple[str, ...]:
    """Ask for the state of a port, as JSON."""
    return ("mlxlink", "-d", word(device, "device"), *(("-c",) if counters else ()), "--json")


def port_state(device: str, *, up: bool) -> tuple[str, ...]:
    """Open or close a port."""
    return ("mlxlink", "-d", word(device, "device"), "--port_state", "UP" if up else "DN", "--yes")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> MlxlinkState:
    """
    Return a port, from text or JSON, whichever it is.

    Raises ToolError with the tool's own words, UnreadableOutput on anything else.
    """
    found = sections(stdout, stderr, exit_status)
    operational = found.get("Operational Info", {})
    state, physical = operational.get("State", ""), operational.get("Physical state", "")
    if not state or not physical:
        raise UnreadableOutput("mlxlink: neither state nor physical state of the port was said")
    return MlxlinkState(state, physical, _counters(found.get(_COUNTERS, {})))


def module(device: str) -> tuple[str, ...]:
    """Ask for the module of a port, as JSON; only root gets an answer."""
    return ("mlxlink", "-d", word(device, "device"), "-m", "--json")


def read_module(stdout: str, stderr: str = "", exit_status: int = 0) -> Module:
    """
    Return the module; raises ToolError with the tool's own words, UnreadableOutput where there is no section about it.
    """
    return _module(sections(stdout, stderr, exit_status))


def _module(found: Mapping[str, Rows]) -> Module:
    if _MODULE not in found:
        raise UnreadableOutput(f"mlxlink: no section {_MODULE!r}")
    rows = found[_MODULE]
    names = ("Vendor Name", "Vendor Part Number", "Vendor Serial Number", "FW Version")
    return Module(*(label("mlxlink", name, rows.get(name, "")) for name in names))


_LIGHT = re.compile(r"(-?[\d.]+(?:,-?[\d.]+)*)\s*\[(-?[\d.]+)\.\.(-?[\d.]+)\]", re.ASCII)
_TEMPERATURE = re.compile(r"(-?\d{1,3}(?:\.\d+)?)(?:\s*\[.*\])?", re.ASCII)


_OPTICS = ("-m", "-c", "--rx_fec_histogram", "--show_histogram", "--json")
"""Options of MFT 4.17 of May 2021 and later; the histogram makes a call a fifteenth longer."""


def optics(device: str) -> tuple[str, ...]:
    """Ask for module, counters and histogram of a port of this host, as JSON; only root gets an answer."""
    return ("mlxlink", "-d", word(device, "device"), *_OPTICS)


def optics_in_band(lid: int, number: int, device: str, port: int) -> tuple[str, ...]:
    """
    Ask the same of port *number* of the switch with this LID, through a *device* and its *port* of this host.

    Port 17 of a switch with two ports a cage is named ``9/1``, as nvibt's berquery names the ports of a QM9790.
    """
    place = f"lid-{whole(lid, 'LID', at_least=1, at_most=LIDS_MOST)},{word(device, 'device')},{port}"
    label = f"{(whole(number, 'port', at_least=1, at_most=254) + 1) // 2}/{2 - number % 2}"
    return ("mlxlink", "-d", place, "-p", label, *_OPTICS)


def read_optics(stdout: str, stderr: str = "", exit_status: int = 0) -> Optics:
    """
    Return the optics; raises ToolError with the tool's own words, UnreadableOutput without a section about the module.
    """
    found = sections(stdout, stderr, exit_status)
    rows = found.get(_MODULE, {})
    copper = "copper" in rows.get("Cable Technology", "").lower() + rows.get("Cable Type", "").lower()
    counted = _counters(found.get(_COUNTERS, {}))
    heat = _TEMPERATURE.fullmatch(rows.get("Temperature [C]", "").strip())
    return Optics(
        module=_module(found),
        temperature_c=module_c(float(heat[1])) if heat else None,
        rx=None if copper else _light(rows, "Rx"),
        tx=None if copper else _light(rows, "Tx"),
        raw_errors=counted.get("raw_errors"),
        effective_errors=counted.get("effective_errors"),
        worst_block=_worst_block(found.get(_HISTOGRAM, {})),
    )


_BIN = re.compile(r"\[([0-9]{1,5})(?::[0-9]{1,5})?\][\s,]*([0-9]{1,20})", re.ASCII)
"""The number or range of wrong symbols of blocks, and how many blocks had it (mlxlink_port_info.cpp)."""


def _worst_block(rows: Rows) -> int | None:
    bins = [
        need(_BIN.fullmatch(value.strip()), f"mlxlink: {name} is {value[:60]!r}")
        for name, value in rows.items()
        if name.startswith("Bin ")
    ]
    return max((int(one[1]) for one in bins if int(one[2])), default=None)


def _light(rows: Rows, way: str) -> Light | None:
    """Return the light, None if there is none: passive copper says N/A, or 0 within an empty range."""
    found = _LIGHT.fullmatch(rows.get(f"{way} Power Current [dBm]", "").strip())
    try:
        low, high = (float(found[2]), float(found[3])) if found else (0.0, 0.0)
        return Light(tuple(float(one) for one in found[1].split(",")), low, high) if found and low < high else None
    except ValueError as exc:
        raise UnreadableOutput(f"mlxlink: no powers: {rows[f'{way} Power Current [dBm]'][:60]!r}") from exc


def sections(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, dict[str, str]]:
    """Return everything that was printed, row name to value, by section; raises as ``read``."""
    text = plain(stdout)
    if text.lstrip().startswith("{"):
        return _sections_of_json(text)
    if "-E-" in stderr or "-E-" in stdout or exit_status != 0:
        raise ToolError(f"mlxlink: {complaint(stdout, stderr)}")
    return _sections_of_text(text)


def _sections_of_text(text: str) -> dict[str, dict[str, str]]:
    """Return sections by title; the title is the line above a rule of dashes."""
    sections: dict[str, dict[str, str]] = {}
    rows: dict[str, str] | None = None
    before = ""
    for line in whole_lines(text):
        if line.startswith("---") and not line.strip("-") and before:
            rows = sections.setdefault(before, {})
        found = _ROW.match(line)
        if found and rows is not None:
            rows.setdefault(found[1], found[2].strip())
        before = line.strip()
    return sections


_NO_HISTOGRAM = re.compile(r"Providing FEC histogram cause the following exception:\n[^\n]*\n?")
"""A message that makes code and status 1 where a device or its FEC has no histogram; everything else is printed."""


def _sections_of_json(text: str) -> dict[str, dict[str, str]]:
    try:
        document = json.loads(text)
        status = document["status"]
        code, message = status["code"], status["message"]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise UnreadableOutput(f"mlxlink: no whole JSON document: {text[-80:]!r}") from exc
    if code != 0 and not _NO_HISTOGRAM.fullmatch(str(message)):
        raise ToolError(f"mlxlink: {str(message)[:300]}")
    try:
        output = document["result"]["output"]
        return {
            title: {name: printed for name, value in rows.items() if (printed := _as_text(value)) is not None}
            for title, rows in output.items()
        }
    except (KeyError, TypeError, AttributeError) as exc:
        raise UnreadableOutput(f"mlxlink: not the document that was expected: {text[:80]!r}") from exc


def _as_text(value: object) -> str | None:
    """Return a value as the text form has it: lanes and masks come as ``{"mask": ..., "values": [...]}``."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or not isinstance(values := value.get("values"), list):
        return None
    joined, mask = ",".join(map(str, values)), value.get("mask")
    return joined if mask is None else f"{mask} ({joined})"


def _counters(rows: Rows) -> dict[str, int]:
    lanes = [_count(lane) for lane in rows.get("Raw Physical Errors Per Lane", "N/A").split(",")]
    known = [count for count in lanes if count is not None]
    counts = {name: _count(rows.get(title, "N/A")) for name, title in _COUNTS.items()}
    raw = {"raw_errors": sum(known)} if len(known) == len(lanes) else {}
    return raw | {name: count for name, count in counts.items() if count is not None}


def _count(text: str) -> int | None:
    text = text.strip()
    if text == "N/A":
        return None
    return int(need(re.fullmatch(r"[0-9]{1,20}", text, re.ASCII), f"mlxlink: {text[:60]!r} is no count")[0])


# Device:, then the setting's row; a * before it says that the next boot brings another value.
_SETTING_ROW = r"[\s*]*{name}\s+(True\(1\)|False\(0\))\s*"
_UNKNOWN = re.compile(r"-E- .*(doesn't support|does not support|[Uu]nknown [Pp]arameter)")


def keep_link_up(*, ethernet: bool, port: int) -> str:
    """Return the setting of a port: ``KEEP_ETH_LINK_UP_P1``."""
    return f"KEEP_{'ETH' if ethernet else 'IB'}_LINK_UP_P{whole(port, 'port', at_least=1, at_most=8)}"


def ask_setting(device: str, setting: str) -> tuple[str, ...]:
    """Ask for one setting of the firmware; nothing is written."""
    return ("mlxconfig", "-d", word(device, "device"), "query", word(setting, "setting"))


def read_setting(setting: str, stdout: str, stderr: str = "", exit_status: int = 0) -> bool:
    """
    Return whether a setting is on; one that the device does not know is off.

    Raises ToolError with the tool's own words, UnreadableOutput when its row is missing.
    """
    if exit_status != 0 and _UNKNOWN.search(plain(stdout + stderr)):
        return False
    need_success("mlxconfig", stdout, stderr, exit_status)
    row = re.compile(_SETTING_ROW.format(name=re.escape(setting)), re.ASCII)
    for line in plain(stdout).splitlines():
        if found := row.fullmatch(line):
            return found[1] == "True(1)"
    raise UnreadableOutput(f"mlxconfig: no {setting} in {stdout[-160:]!r}")
