"""Hosts x (RNIC, endpoint): every measurement that a host makes alone, as a map of colours; outliers have a sign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, sqrt
from typing import NamedTuple

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.report.html.shares import Label, colour_class, label_of, share_of
from fabric.report.html.svg import line, mark, picture, rect, tag, text
from fabric.report.shown_run import Row, ShownRun

MOST_HOSTS = 128
"""More hosts than this are shown as racks, and unfolded on demand."""

_CELL, _ROW, _LEFT, _TOP, _GAP = 7.0, 12.0, 110.0, 46.0, 8.0


class Cell(NamedTuple):
    """
    The worst of one measurement on one host (phases and repetitions folded).

    A tuple: a large run has 300,000.
    """

    share: float | None
    outcome: Outcome
    row: Row


@dataclass(frozen=True, slots=True)
class HeatMap:
    """*columns* in the order of the picture; *cells* by host, then label."""

    columns: tuple[Label, ...]
    cells: Mapping[str, Mapping[Label, Cell]]


def heat_map(run: ShownRun, normal: Mapping[Label, float]) -> HeatMap:
    """Fold every single-host probe into its cell; what only reads and measures nothing is a column where it failed."""
    columns: dict[Label, None] = {}
    cells: dict[str, dict[Label, Cell]] = {}
    for row in run.rows:
        if len(row.probe.hosts) != 1:
            continue
        label = label_of(row)
        columns[label] = None
        own = cells.setdefault(row.probe.hosts[0], {})
        cell = Cell(share_of(row, normal, label), row.verdict.outcome, row)
        if label not in own or _badness(cell) > _badness(own[label]):
            own[label] = cell
    told: dict[Label, None] = {}
    for own in cells.values():
        told.update({label: None for label, cell in own.items() if label not in told and _tells(cell)})
    if len(told) < len(columns):
        columns = {label: None for label in columns if label in told}
        cells = {host: {label: cell for label, cell in own.items() if label in told} for host, own in cells.items()}
    kinds = list(dict.fromkeys(kind for kind, _ in columns))
    ordered = sorted(columns, key=lambda label: (kinds.index(label[0]), _natural(label[1])))
    return HeatMap(tuple(ordered), cells)


def draw(found: HeatMap, hosts: Sequence[str], label: str) -> Markup:
    """The map of some hosts; a row is a link to the measurements of its host."""
    places, width = _places(found.columns)
    height = _TOP + _ROW * len(hosts) + 8
    parts = list(_heads(found.columns, places, height))
    for number, host in enumerate(hosts):
        y = _TOP + _ROW * number
        name = text(_LEFT - 6, y + _ROW - 3, host, anchor="end", cls="host", most=16)
        parts.append(tag("a", name, href=f"#{host}"))
        own = found.cells.get(host, {})
        parts += _runs(found.columns, places, own, y)
        parts += _signs(found.columns, places, own, y)
    return picture(width, height, parts, label, cls="heat")


def worst_share(own: Iterable[Cell]) -> tuple[float | None, Outcome]:
    """The least share and the worst outcome of a host's cells."""
    shares: list[float] = []
    outcome = Outcome.PASS
    for cell in own:
        if cell.outcome is not outcome and cell.outcome.rank > outcome.rank:
            outcome = cell.outcome
        if cell.share is not None:
            shares.append(cell.share)
    return min(shares, default=None), outcome


def _tells(cell: Cell) -> bool:
    return cell.share is not None or cell.outcome is not Outcome.PASS


def _badness(cell: Cell) -> tuple[int, float]:
    return cell.outcome.rank, -(cell.share if cell.share is not None else 9.0)


def _natural(series: str) -> list[tuple[int, int, str]]:
    """mlx5_2 before mlx5_10; memory nodes before GPUs comes from the order of the letters reversed."""
    parts = "".join(c if c.isdigit() else f" {c} " if c in "._-" else c for c in series).replace("numa", " 0numa ")
    return [
        (0, int(digits), "") if (digits := part.strip()).isdigit() and len(digits) < 9 else (1, 0, part)
        for piece in parts.split()
        for part in ("".join(group) for _, group in groupby(piece, str.isdigit))
    ]


def _places(columns: Sequence[Label]) -> tuple[list[float], float]:
    """Where each column begins: a gap between kinds, a hairline between RNICs."""
    x, start, places, before = _LEFT, _LEFT, [], ("", "")
    for kind, series in columns:
        group = (kind, series.partition(".")[0])
        if before[0] and group[0] != before[0]:
            x = start = max(x + _GAP, start + 7 * len(before[0]) + _GAP)  # its name must fit above it
        elif before[1] and group[1] != before[1] and "." in series:
            x += 2
        before = group
        places.append(x)
        x += _CELL
    return places, max(x + 10, start + 7 * len(before[0]) + 4, 320)  # the last name must fit, too


def _heads(columns: Sequence[Label], places: Sequence[float], height: float) -> Iterator[Markup]:
    indexed = list(enumerate(columns))
    for kind, members in groupby(indexed, key=lambda pair: pair[1][0]):
        listed = list(members)
        yield text(places[listed[0][0]], 14, kind, cls="head", most=24)
        for first, group in groupby(listed, key=lambda pair: pair[1][1].partition(".")[0]):
            here = [index for index, _ in group]
            x = places[here[0]]
            if len(here) * _CELL >= 36:
                yield text(x + len(here) * _CELL / 2, 40, first, anchor="middle", cls="tick", most=10)
            yield line(x - 1, _TOP - 3, x - 1, height - 6, "hair")


def _runs(columns: Sequence[Label], places: Sequence[float], own: Mapping[Label, Cell], y: float) -> Iterator[Markup]:
    """Neighbours of one colour are one box: a healthy host is a handful of boxes, not a hundred."""
    start = 0
    classes = [colour_class(own[label].share) if label in own else "" for label in columns]
    for index in range(1, len(columns) + 1):
        joined = (
            index < len(columns)
            and classes[index] == classes[start]
            and places[index] - places[index - 1] <= _CELL + 0.01
        )
        if joined:
            continue
        if classes[start]:
            width = places[index - 1] + _CELL - places[start]
            yield rect(places[start], y + 0.5, width, _ROW - 1, classes[start])
        start = index


def _signs(columns: Sequence[Label], places: Sequence[float], own: Mapping[Label, Cell], y: float) -> Iterator[Markup]:
    for label, x in zip(columns, places, strict=True):
        cell = own.get(label)
        if cell is not None and cell.outcome is not Outcome.PASS:
            said = f"{cell.row.probe.probe_id}: {cell.row.verdict.reason}"
            yield mark(x + _CELL / 2, y + _ROW / 2, 5.5, cell.outcome.value, said)


_SQUARE = 12.0
_WIDTH = 1080.0


def racks_of(topology: Topology, hosts: Sequence[str]) -> dict[str, list[str]]:
    """Hosts by rack, in inventory order; where no rack is written, by their leaves."""
    racks: dict[str, list[str]] = {}
    for name in hosts:
        host = topology.hosts[name]
        racks.setdefault(host.rack or (host.leaves[0] if host.leaves else "hosts"), []).append(name)
    return racks


def draw_racks(racks: Mapping[str, Sequence[str]], worst: Mapping[str, tuple[float | None, Outcome]]) -> Markup:
    """One box a rack, as square as it goes; its name below, and a sign on each host that did not pass."""
    across = max((ceil(sqrt(len(hosts))) for hosts in racks.values()), default=1)
    down = max((ceil(len(hosts) / across) for hosts in racks.values()), default=1)
    step_x, step_y = max(across * _SQUARE + 8, 34.0), down * _SQUARE + 18
    columns = max(int(_WIDTH // step_x), 1)
    parts = []
    for number, (rack, hosts) in enumerate(racks.items()):
        left, top = (number % columns) * step_x + 2, (number // columns) * step_y + 2
        inside = [rect(left - 2, top - 2, across * _SQUARE + 4, down * _SQUARE + 4, "rack")]
        for index, host in enumerate(hosts):
            x, y = left + index % across * _SQUARE, top + index // across * _SQUARE
            share, outcome = worst.get(host, (None, Outcome.PASS))
            inside.append(rect(x + 0.5, y + 0.5, _SQUARE - 1, _SQUARE - 1, colour_class(share)))
            inside.append(mark(x + _SQUARE / 2, y + _SQUARE / 2, 7, outcome.value, f"{host}: {outcome.name}"))
        inside.append(
            text(left + across * _SQUARE / 2, top + down * _SQUARE + 11, rack, anchor="middle", cls="tiny", most=8)
        )
        parts.append(tag("g", *inside, class_="unfold", data_rack=str(number), tabindex="0", role="button"))
    rows = ceil(len(racks) / columns)
    return picture(_WIDTH, rows * step_y + 4, parts, f"{len(racks)} racks, hosts coloured by their worst measurement")
