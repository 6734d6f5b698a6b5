"""Read a plan of point-to-point cables: our own CSV, NetBox's (its exports and imports), or a topology file.

Topology files (``.topo``: ``ibdiagnet -w`` writes them and UFM compares with them; man ibdm-topo-file) have a section
for each system, ``TYPE NAME``, and in it a line for each cable, ``P1 -4x-100G-> TYPE NAME P7``; most cables are in both
sections.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fabric.config.problems import Problems
from fabric.errors import ConfigError
from fabric.model.found import FoundCable, FoundEnd

_ENDS = (
    ("a_node", "a_port", "b_node", "b_port"),
    # netbox/dcim/tables/cables.py, 2026-08: the headings that "Export" writes
    ("device a", "termination a", "device b", "termination b"),
    # netbox/dcim/forms/bulk_import.py: the headings of imports, and of older exports
    ("side_a_device", "side_a_name", "side_b_device", "side_b_name"),
)
_ARROW = re.compile(r"\s-(?:[0-9A-Za-z.]+-)*>\s")
_PANEL = re.compile(r"P([0-9]{1,3})|([a-z]\w+)/P[0-9]{1,3}", re.ASCII)
_TYPES = ("side_a_type", "side_b_type")
_CONNECTED = ("", "connected")
_SEPARATORS = (",", ";", "\t", "|")
"""NetBox lets each user choose one of these."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """
    The cables as planned: the *node* of an end is a host or a switch by its own name, its *port* as in the file.

    *left_out*: rows that cannot be compared (a cable with several ends on one side). Cables that are not connected yet,
    or no longer, and those of no network interface are not part of the plan.
    """

    cables: tuple[FoundCable, ...]
    left_out: tuple[str, ...] = ()


def read_blueprint(path: Path, data: bytes) -> Blueprint:
    """
    Return the blueprint in *data*, the content of the file at *path*.

    Raises ConfigError with every problem and its line.
    """
    problems = Problems(str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError.at(path, f"not UTF-8: byte {exc.start + 1}") from exc
    cables: list[FoundCable] = []
    left_out: list[str] = []
    taken: dict[FoundEnd, int] = {}
    for line, cells in _topology(text, problems) if _is_topology(text) else _rows(path, text):
        if not all(cells) or not "".join(cells).isprintable():
            problems.at_line(line, "expected a node and a port at either end of a cable, in printable characters")
        elif any("," in cell for cell in cells):
            left_out.append(f"line {line}: {cells[0]} {cells[1]} to {cells[2]} {cells[3]}")
        else:
            a, b = FoundEnd(*cells[:2]), FoundEnd(*cells[2:])
            for end in (a, b):
                if end in taken:
                    problems.at_line(line, f"{end.node} {end.port} has a cable already, in line {taken[end]}")
                taken[end] = line
            cables.append(FoundCable(a, b, None))
    if not cables and not problems:
        problems.at_line(0, "no cable of two network interfaces in it")
    problems.raise_if_any()
    return Blueprint(tuple(cables), tuple(left_out))


def _is_topology(text: str) -> bool:
    """Return whether the text has lines of cables and does not begin like a table."""
    first = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "")
    return _ARROW.search(text) is not None and not any(separator in first for separator in ",;|")


def _topology(text: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield each cable of a topology file once: its line, and node and port of either end."""
    system, seen = "", set[frozenset[tuple[str, str]]]()
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].split()
        if not words:
            system = ""
        elif not system and len(words) >= 2 and not _ARROW.search(line):
            system = words[1]
        elif system and len(words) == 5 and _ARROW.fullmatch(f" {words[1]} "):
            one, other = (system, _port(words[0])), (words[3], _port(words[4]))
            if (ends := frozenset((one, other))) not in seen:
                seen.add(ends)
                yield number, [*one, *other]
        else:
            problems.at_line(number, "expected a system, TYPE NAME, or one of its cables, PORT -> TYPE NAME PORT")


def _port(panel: str) -> str:
    """Return the port: ``P7`` of a switch is port 7, ``mlx5_0/P1`` of a host is that RDMA device; other names stay."""
    found = _PANEL.fullmatch(panel)
    return (found[1] or found[2]) if found else panel


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cables of a table in the same form: each row that is a connected cable of the network."""
    first = text.partition("\n")[0].rstrip("\r")
    for separator in _SEPARATORS:
        names = [cell.strip().strip('"').casefold() for cell in first.split(separator)]
        ends = next((wanted for wanted in _ENDS if set(wanted) <= set(names)), None)
        if ends is not None:
            break
    else:
        wanted = "; or ".join(", ".join(one) for one in _ENDS)
        raise ConfigError.at(path, f"expected the columns {wanted}; got {first[:120]!r}", line=1)
    if len(set(names)) < len(names):
        raise ConfigError.at(path, "a column is there twice", line=1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    try:
        next(reader)
        for cells in reader:
            line = reader.line_num
            if not any(map(str.strip, cells)):
                continue
            if len(cells) != len(names):
                message = f"expected {len(names)} cells as in the first line, got {len(cells)}"
                raise ConfigError.at(path, message, line=line)
            row = dict(zip(names, map(str.strip, cells), strict=True))
            is_network = all(row.get(name, "interface").rpartition(".")[2] == "interface" for name in _TYPES)
            if is_network and row.get("status", "").casefold() in _CONNECTED:
                yield line, [row[name] for name in ends]
    except csv.Error as exc:
        raise ConfigError.at(path, f"not comma-separated values: {exc}", line=reader.line_num) from exc
