"""The scaling curve of a hall as rows of words, for people and for documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fabric.model.outcome import Outcome
from fabric.model.verdict import Hall, HallPairs, HallPoint
from fabric.report.output import columns, jsonable

BOUND = "the most that RNICs' lines and the cables between switches carry, by the inventory, whatever the routing"
"""Where the bound comes from."""

NO_LIMIT = "told, not judged: the baseline has no limit, and nobody publishes one"

_HEAD = ("what", "hosts", "GPUs", "Gb/s", "at most", "share", "limit", "")


def _rows(hall: Hall) -> Iterator[tuple[str, ...]]:
    for point in hall.points:
        limit = _number(point.limit_gbps)
        word = point.reason or (point.outcome.name if point.limit_gbps is not None else "")
        counts = (f"{point.hosts:,}", f"{point.gpus:,}")
        yield (point.kind, *counts, *_shares(point.gbps, point.bound_gbps), limit, word)
    for pairs in hall.pairs:
        words = f"least of {pairs.count:,}, median {pairs.median_gbps:,.1f}"
        yield (pairs.kind, "", "", _number(pairs.least_gbps), "", "", _number(pairs.limit_gbps), words)


class ShownHall(NamedTuple):
    """The table: its head, its rows, and notes below it."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """In columns."""
        return [*columns([self.head, *self.rows], right=range(1, len(self.head) - 1)), *self.notes]


def shown_hall(hall: Hall) -> ShownHall:
    """One row a point, then RNIC to RNIC; what the numbers are, and which of them judge nothing."""
    told = any(point.limit_gbps is None and point.gbps is not None for point in hall.points)
    bus = f"Gb/s of bus bandwidth (nccl-tests). At most: {BOUND}"
    notes = (bus, f"No limit: {NO_LIMIT}") if told else (bus,)
    return ShownHall(_HEAD, tuple(_rows(hall)), notes)


def hall_document(hall: Hall | None) -> dict[str, Any] | None:
    """JSON-able; null where there is no curve."""
    return None if hall is None else {**jsonable(hall), "bound": BOUND, "without_limit": NO_LIMIT}


def hall_from(document: Mapping[str, Any]) -> Hall:
    """The curve that such a document was made from."""
    points = (HallPoint(**{**point, "outcome": Outcome(point["outcome"])}) for point in document["points"])
    return Hall(tuple(points), tuple(HallPairs(**pairs) for pairs in document["pairs"]))


def _shares(gbps: float | None, most: float | None) -> tuple[str, str, str]:
    share = "" if gbps is None or not most else f"{gbps / most:.0%}"
    return _number(gbps), _number(most), share


def _number(gbps: float | None) -> str:
    return "" if gbps is None else f"{gbps:,.1f}"
