"""The parts of a host: their serial numbers, and how far GPUs and RNICs are from each other.

RNICs are read with ``lspci`` (VPD, PCI Local Bus 3.0, appendix I), GPUs with ``nvidia-smi``, as the driver sees them.
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabric.errors import ToolError, UnreadableOutput
from fabric.model.repair import PartIdentity
from fabric.tools.driver import need_success, whole_lines

NVIDIA = "15b3:"
"""The vendor id of Mellanox, which NVIDIA's RNICs still have."""

_DEVICE = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S", re.ASCII)
_FIELD = re.compile(r"\s+\[(PN|SN)\] (?:Part|Serial) number: (\S[!-~ ]{0,63})")
_SIMPLE = re.compile(r"[!-~]+(?: [!-~]+)*")


@dataclass(frozen=True, slots=True)
class Vpd:
    """Vital product data of one device; None: not given."""

    part_number: str | None = None
    serial: str | None = None


RNICS = ("lspci", "-D", "-vv", "-d", NVIDIA)
"""Ask for all RNICs of NVIDIA, with PCI domains; only root may read the VPD."""


def read_rnics(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, Vpd]:
    """
    Return VPD by PCI address, ``0000:18:00.0``; empty where there is no such device.

    Raises ToolError when the tool refused (not root) or failed, UnreadableOutput for text that is not a list of
    devices.
    """
    need_success("lspci", stdout, stderr, exit_status)
    if "Capabilities: <access denied>" in stdout:
        raise ToolError("lspci: capabilities: access denied: serial numbers are for root alone")
    found: dict[str, dict[str, str]] = {}
    address, fields = "", dict[str, str]()
    for line in whole_lines(stdout):
        if head := _DEVICE.match(line):
            address = head[1]
            fields = found[address] = {}
        elif line and not (found and line[0].isspace()):
            raise UnreadableOutput(f"lspci: not a device: {line[:80]!r}")
        elif row := _FIELD.fullmatch(line):
            name, value = row[1], row[2].strip()
            if name in fields or not _SIMPLE.fullmatch(value):
                raise UnreadableOutput(f"lspci: {address}: [{name}] twice, or no plain text: {line.strip()[:80]!r}")
            fields[name] = value
    return {address: Vpd(fields.get("PN"), fields.get("SN")) for address, fields in found.items()}


FIELDS = ("index", "uuid", "serial", "vbios_version", "pci.bus_id")

_INDEX = re.compile(r"[0-9]{1,3}", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_PLAIN = re.compile(r"[!-~]{1,64}", re.ASCII)


GPUS = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader")
"""Ask for all GPUs, one line each."""


def read_gpus(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[PartIdentity, ...]:
    """
    Return the GPUs as the driver numbers and lists them; consumer boards have no serial number.

    Raises ToolError with the tool's own words, UnreadableOutput for a line that is not a GPU.
    """
    need_success("nvidia-smi", stdout, stderr, exit_status)
    return tuple(_gpu(line) for line in whole_lines(stdout) if line.strip())


def _gpu(line: str) -> PartIdentity:
    try:
        values = [value.strip() for value in next(csv.reader([line]))]
    except csv.Error as exc:
        raise UnreadableOutput(f"nvidia-smi: not a line of values: {line[:80]!r}") from exc
    if len(values) != len(FIELDS) or not _INDEX.fullmatch(values[0]) or not _UUID.fullmatch(values[1]):
        raise UnreadableOutput(f"nvidia-smi: not {len(FIELDS)} values of a GPU: {line[:80]!r}")
    serial, vbios, _ = (_optional(value, line) for value in values[2:])
    return PartIdentity(f"gpu{int(values[0])}", "gpu", serial, None, vbios, values[1])


def _optional(value: str, line: str) -> str | None:
    if value in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", ""):
        return None
    if not _PLAIN.fullmatch(value):
        raise UnreadableOutput(f"nvidia-smi: {value[:60]!r} in {line[:60]!r}")
    return value


_CLASS = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3}", re.ASCII)
_PART = re.compile(r"(?:GPU|NIC)[0-9]{1,3}|mlx5_[A-Za-z0-9_]{1,12}|rocep\w{1,16}|ibp\w{1,16}", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,3}): ([A-Za-z0-9_.-]{1,32})", re.ASCII)
_TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(frozen=True, slots=True)
class GpuTopology:
    """
    The names of the *gpus*, ``GPU0``, and where they are.

    *distance*: ``PIX``, ``NV18`` and so on, by a pair of GPUs and RDMA devices, both ways round; AMD does not report
    it. *numa*: the memory node of each GPU, where reported. On GB200 all are SYS: nothing follows from it.
    """

    gpus: tuple[str, ...] = ()
    distance: Mapping[tuple[str, str], str] = field(default_factory=dict)
    numa: Mapping[str, int] = field(default_factory=dict)


TOPOLOGY = ("nvidia-smi", "topo", "-m")
"""Ask for the matrix."""


def read_topology(stdout: str, stderr: str = "", exit_status: int = 0) -> GpuTopology:
    """
    Return the matrix; RDMA devices have their own names where a legend gives them.

    Raises ToolError with the tool's own words, UnreadableOutput where a row is missing or does not fit the heading.
    """
    need_success("nvidia-smi", stdout, stderr, exit_status)
    columns, rows, names = _parts_of(whole_lines(stdout))
    if not columns or not rows:
        raise UnreadableOutput(f"nvidia-smi: no topology matrix in {stdout[:120]!r}")
    missing = [name for name in columns if name not in rows and name.startswith("GPU")]
    if missing or not rows.keys() <= set(columns):
        raise UnreadableOutput(f"nvidia-smi: columns {' '.join(columns)}, rows {' '.join(rows)}"[:300])
    distance: dict[tuple[str, str], str] = {}
    for name, cells in rows.items():
        for other, cell in zip(columns, cells, strict=False):
            if not _CLASS.fullmatch(cell) or (cell == "X") != (name == other):
                raise UnreadableOutput(f"nvidia-smi: {cell[:20]!r} between {name} and {other}")
            pair = names.get(name, name), names.get(other, other)
            if distance.setdefault(pair, cell) != cell or distance.setdefault(pair[::-1], cell) != cell:
                raise UnreadableOutput(f"nvidia-smi: {name} and {other} are {cell} and {distance[pair[::-1]]}")
    numa = {name: found for name, cells in rows.items() if (found := _numa(cells[len(columns) :])) is not None}
    gpus = tuple(name for name in columns if name.startswith("GPU"))
    return GpuTopology(gpus, {pair: cell for pair, cell in distance.items() if cell != "X"}, numa)


AMD_NUMA = ("rocm-smi", "--showtoponuma", "--json")
"""Ask for AMD's GPUs and the memory node of each; their distance to RDMA devices is not reported."""

_CARD = re.compile(r"card([0-9]{1,3})", re.ASCII)


def read_amd_numa(stdout: str, stderr: str = "", exit_status: int = 0) -> GpuTopology:
    """Return the GPUs in order, and the memory nodes that are not -1. Warnings may stand before the JSON."""
    need_success("rocm-smi", stdout, stderr, exit_status)
    try:
        document = json.loads(stdout[stdout.index("{") :])
        cards = {int(of[1]): one for name, one in document.items() if (of := _CARD.fullmatch(name))}
        gpus = {f"GPU{number}": int(one["(Topology) Numa Node"]) for number, one in sorted(cards.items())}
        if not gpus or not all(-1 <= node < 1000 for node in gpus.values()):
            raise ValueError("no memory nodes")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UnreadableOutput(f"rocm-smi: not the memory nodes of GPUs: {stdout[:120]!r}") from exc
    return GpuTopology(tuple(gpus), numa={name: node for name, node in gpus.items() if node >= 0})


def _parts_of(lines: Sequence[str]) -> tuple[list[str], dict[str, list[str]], dict[str, str]]:
    """Return columns, the cells of each row, and the legend; the heading may be wrapped into several lines."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for line in lines:
        words = line.split()
        found = _LEGEND.fullmatch(line.rstrip())
        if found:
            names[found[1]] = found[2]
        elif words and _PART.fullmatch(words[0]) and len(words) > 1 and _CLASS.fullmatch(words[1]):
            rows.setdefault(words[0], words[1:])
            if len(words) <= len(columns):
                raise UnreadableOutput(f"nvidia-smi: a row was cut: {line.strip()[:120]!r}")
        elif words and not rows and _PART.fullmatch(words[0]):
            for title in _TITLES:
                line = line.replace(title, "")
            columns += line.split()
    return columns, rows, names


def _numa(cells: list[str]) -> int | None:
    """Return the memory node from the cells behind the matrix (CPUs, memory node); None where there is none (N/A)."""
    node = cells[1] if len(cells) > 1 else ""
    return int(node) if re.fullmatch(r"[0-9]{1,3}", node, re.ASCII) else None
