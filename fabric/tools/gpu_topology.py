"""``nvidia-smi topo -m``: how far GPUs and RNICs are from each other, as the driver sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need_success, plain, program

_CLASS = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3}", re.ASCII)
_PART = re.compile(r"(?:GPU|NIC)[0-9]{1,3}|mlx5_[A-Za-z0-9_]{1,12}|rocep\w{1,16}|ibp\w{1,16}", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,3}): ([A-Za-z0-9_.-]{1,32})", re.ASCII)
_TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(frozen=True, slots=True)
class GpuTopology:
    """
    *distance*: ``PIX``, ``NV18`` and so on, by a pair of ``GPU0`` and RDMA devices, both ways round.

    *numa*: the memory node of each GPU, without those that were not said. On GB200 all is SYS: nothing follows from it.
    """

    distance: Mapping[tuple[str, str], str]
    numa: Mapping[str, int]

    @property
    def parts(self) -> tuple[str, ...]:
        """GPUs and RDMA devices, as the columns are."""
        return tuple(dict.fromkeys(one for pair in self.distance for one in pair))


def topology(*, tool: str = "nvidia-smi") -> tuple[str, ...]:
    """Ask for the matrix."""
    return (program(tool), "topo", "-m")


def read_topology(stdout: str, stderr: str = "", exit_status: int = 0) -> GpuTopology:
    """
    The matrix; RDMA devices by their own names where a legend tells them.

    Raises ToolError with the tool's own words, UnreadableOutput where a row is missing or does not fit the heading.
    """
    need_success("nvidia-smi", stdout, stderr, exit_status)
    columns, rows, names = _parts_of(plain(stdout))
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
    return GpuTopology({pair: cell for pair, cell in distance.items() if cell != "X"}, numa)


def _parts_of(text: str) -> tuple[list[str], dict[str, list[str]], dict[str, str]]:
    """Columns, the cells of each row, and the legend; the heading may have been wrapped into several lines."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for line in text.split("\n"):
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
    """Of what stands behind the matrix, CPUs and memory node: the node, None where there is none (N/A)."""
    node = cells[1] if len(cells) > 1 else ""
    return int(node) if re.fullmatch(r"[0-9]{1,3}", node, re.ASCII) else None
