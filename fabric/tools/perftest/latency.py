"""The table that ib_write_lat printed, and whether it answers a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabric.tools.perftest.command import given_options

_TITLE = re.compile(r"^\s*RDMA_Write Latency Test\s*$", re.MULTILINE)
_DEVICE = re.compile(r"\bDevice\s*: (\S+)")
_LINK = re.compile(r"^ Link type\s*: (\S+)", re.MULTILINE)
_COLUMNS = (
    "#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
    "99% percentile[usec]", "99.9% percentile[usec]",
)  # fmt: skip
_TABLE = re.compile(
    r"^ *" + r"\s+".join(re.escape(name) for name in _COLUMNS) + r"[ \t]*\n(?P<row>[ \t\d.]+)\n(?P<rule>-{20,}$)?",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Latency:
    """One table: of *iterations* messages the most, the median and the 99th percentile, microseconds one way."""

    device: str
    link_type: str
    size_bytes: int
    iterations: int
    most_us: float
    typical_us: float
    p99_us: float


def parse(text: str) -> Latency | None:
    """The one table in an output; None where there is none, several, one that is cut or one that contradicts itself."""
    tables, device, link = list(_TABLE.finditer(text)), _DEVICE.search(text), _LINK.search(text)
    if len(tables) != 1 or len(_TITLE.findall(text)) != 1 or device is None or link is None:
        return None
    cells = tables[0]["row"].split()
    if len(cells) != len(_COLUMNS) or tables[0]["rule"] is None:
        return None
    try:
        size, iterations, numbers = int(cells[0]), int(cells[1]), [float(cell) for cell in cells[2:]]
    except ValueError:
        return None
    least, most, typical, _, _, p99, p999 = numbers
    if not 0.0 < least <= typical <= p99 <= p999 <= most:
        return None
    return Latency(device[1], link[1], size, iterations, most, typical, p99)


def otherwise(found: Latency, asked: tuple[str, ...], link_type: str) -> Iterator[str]:
    """Where a table answers another question than that command line: ``asked Device mlx5_0, saw mlx5_1``."""
    given = given_options(asked)
    for name, wanted, seen in (
        ("Device", given["ib-dev"], found.device),
        ("Link type", link_type, found.link_type),
        ("size", given["size"], str(found.size_bytes)),
        ("iterations", given["iters"], str(found.iterations)),
    ):
        if wanted != seen:
            yield f"asked {name} {wanted}, saw {seen}"
