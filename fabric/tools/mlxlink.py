"""``mlxlink`` and ``mstlink``: the state of one port and its error counters, from text or JSON; closing and opening."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools.argument import program, word
from fabric.tools.said import complaint, plain, whole_lines

NO_ERRORS = "15E-255"
"""How a bit error rate without any error seen is printed."""

_ROW = re.compile(r"(\S.*?)\s*:\s(.*)")
_BER = re.compile(r"([0-9]{1,3})E-([0-9]{1,3})", re.ASCII)
_KEPT = re.compile(r"KEEP_(?:IB|ETH)_LINK_UP\w*")
_COUNTERS = "Physical Counters and BER Info"
Rows = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Counters:
    """
    What a port has received wrong; None: not said, or N/A, as everything is while the link is down.

    *raw_errors* is the sum of the lanes. *link_down* is 8 bits wide on InfiniBand and stays at 255.
    """

    symbol_errors: int | None
    effective_errors: int | None
    raw_errors: int | None
    link_down: int | None
    link_error_recovery: int | None
    symbol_ber: float | None
    effective_ber: float | None
    raw_ber: float | None


@dataclass(frozen=True, slots=True)
class Link:
    """One port; texts as printed, *fec*, *speed* and *width* None when they are N/A."""

    state: str
    physical_state: str
    speed: str | None
    width: str | None
    fec: str | None
    recommendation: str | None
    counters: Counters | None

    @property
    def up(self) -> bool:
        """The physical link is there."""
        return self.physical_state == "LinkUp" or (self.state == "Active" and self.physical_state == "N/A")


def show(device: str, *, counters: bool = False, tool: str = "mlxlink") -> tuple[str, ...]:
    """Ask for the state of a port, as JSON."""
    return (program(tool), "-d", word(device, "device"), *(("-c",) if counters else ()), "--json")


def port_state(device: str, *, up: bool, tool: str = "mlxlink") -> tuple[str, ...]:
    """Open or close a port."""
    return (program(tool), "-d", word(device, "device"), "--port_state", "UP" if up else "DN", "--yes")


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> Link:
    """
    A port, from text or JSON, whichever it is.

    Raises ToolError with the tool's own words, UnreadableOutput on anything else.
    """
    return _link(sections(stdout, stderr, exit_status))


def sections(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, dict[str, str]]:
    """Everything that was said, row name to value, by section; raises as ``read``."""
    text = plain(stdout)
    if text.lstrip().startswith("{"):
        return _sections_of_json(text)
    if "-E-" in stderr or "-E-" in stdout or exit_status != 0:
        raise ToolError(f"mlxlink: {complaint(stdout, stderr)}")
    return _sections_of_text(text)


def kept_up(stdout: str, stderr: str) -> str | None:
    """The setting that keeps a port from closing (``KEEP_IB_LINK_UP_P1``), None when none is named."""
    found = _KEPT.search(plain(stderr + "\n" + stdout))
    return found[0] if found else None


def ber(text: str) -> float | None:
    """``2E-9``; 0.0 for "no error seen", None for N/A. UnreadableOutput for anything else."""
    if text == "N/A":
        return None
    if text == NO_ERRORS:
        return 0.0
    found = _BER.fullmatch(text)
    if not found:
        raise UnreadableOutput(f"mlxlink: {text[:60]!r} is no bit error rate")
    return float(f"{found[1]}e-{found[2]}")


def _sections_of_text(text: str) -> dict[str, dict[str, str]]:
    """Sections by title; the title is the line above a rule of dashes."""
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


def _sections_of_json(text: str) -> dict[str, dict[str, str]]:
    try:
        document = json.loads(text)
        status = document["status"]
        code, message = status["code"], status["message"]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise UnreadableOutput(f"mlxlink: no whole JSON document: {text[-80:]!r}") from exc
    if code != 0:
        raise ToolError(f"mlxlink: {str(message)[:300]}")
    try:
        output = document["result"]["output"]
        return {
            title: {name: value for name, value in rows.items() if isinstance(value, str)}
            for title, rows in output.items()
        }
    except (KeyError, TypeError, AttributeError) as exc:
        raise UnreadableOutput(f"mlxlink: not the document that was expected: {text[:80]!r}") from exc


def _link(sections: Mapping[str, Rows]) -> Link:
    operational = sections.get("Operational Info", {})
    state, physical = operational.get("State", ""), operational.get("Physical state", "")
    if not state or not physical:
        raise UnreadableOutput("mlxlink: neither state nor physical state of the port was said")
    advice = sections.get("Troubleshooting Info", {}).get("Recommendation")
    rows = sections.get(_COUNTERS)
    return Link(
        state=state,
        physical_state=physical,
        speed=_text(operational.get("Speed")),
        width=_text(operational.get("Width")),
        fec=_text(operational.get("FEC")),
        recommendation=_text(advice),
        counters=None if rows is None else _counters(rows),
    )


def _counters(rows: Rows) -> Counters:
    lanes = [_count(lane) for lane in rows.get("Raw Physical Errors Per Lane", "N/A").split(",")]
    known = [count for count in lanes if count is not None]

    def count(title: str) -> int | None:
        return _count(rows.get(title, "N/A"))

    def rate(title: str) -> float | None:
        return ber(rows.get(title, "N/A"))

    return Counters(
        symbol_errors=count("Symbol Errors"),
        effective_errors=count("Effective Physical Errors"),
        raw_errors=sum(known) if len(known) == len(lanes) else None,
        link_down=count("Link Down Counter"),
        link_error_recovery=count("Link Error Recovery Counter"),
        symbol_ber=rate("Symbol BER"),
        effective_ber=rate("Effective Physical BER"),
        raw_ber=rate("Raw Physical BER"),
    )


def _count(text: str) -> int | None:
    text = text.strip()
    if text == "N/A":
        return None
    if not re.fullmatch(r"[0-9]{1,20}", text, re.ASCII):
        raise UnreadableOutput(f"mlxlink: {text[:60]!r} is no count")
    return int(text)


def _text(value: str | None) -> str | None:
    return None if value in (None, "", "N/A") else value
