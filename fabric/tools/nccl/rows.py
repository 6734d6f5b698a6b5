"""One line of an nccl-tests table, with the columns that its heading announces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GBPS = 8.0
"""nccl-tests prints decimal GB/s; this is the only place that turns them into Gb/s."""

TYPES = frozenset(
    {
        *("int8", "uint8", "int32", "uint32", "int64", "uint64", "char", "int"),
        *("half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"),
    }
)
"""Names in the ``type`` column."""

LARGEST = 1e15
"""Bound of every printed number; larger ones, infinity and NaN are not readable."""

_BLANK_PLACE = " " * 32  # what a trace replay prints instead of the out-of-place half
_LEADING = ("size", "count", "type", "redop", "root")


@dataclass(frozen=True, slots=True)
class NcclPlace:
    """One half of a row; None is a value that was not printed or not readable. *wrong* counts wrong elements."""

    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong: int | None


@dataclass(frozen=True, slots=True)
class NcclRow:
    """One message size; *out_of_place* is None in a trace replay, which runs in place only."""

    size_bytes: int
    out_of_place: NcclPlace | None
    in_place: NcclPlace


@dataclass(frozen=True, slots=True)
class Columns:
    """
    Where the values of a row are, counted from its end: leading cells may be blank (old alltoall prints no redop).

    A place is *width* cells: time, algbw, busbw, others (copy bandwidth, per-iteration times), and the wrong count at
    *wrong_at*, which *counts_wrong* unless it is the relative error of releases before 2022-08.
    """

    leading: tuple[str, ...]
    width: int
    wrong_at: int
    counts_wrong: bool
    trailing: int  # cells after the places: a timestamp is two, RCCL's algorithm, protocol and channels are three
    timed: bool  # the time column is the one that the bandwidth comes from, not CPU time

    @property
    def cells(self) -> int:
        """How many cells a full row has."""
        return len(self.leading) + 2 * self.width + self.trailing


UNKNOWN = Columns(_LEADING, width=4, wrong_at=3, counts_wrong=False, trailing=0, timed=False)
"""The layout of every release with default options; for rows whose heading is not in the log."""


def columns(heading: Sequence[str]) -> Columns | None:
    """The layout that a heading (its words after ``#``) announces, None when it is none that we know."""
    names = list(heading)
    trailing = 0
    for last, cells in ((("timestamp",), 2), (("algo", "proto", "nchannels"), 3)):
        if tuple(names[-len(last) :]) == last:
            del names[-len(last) :]
            trailing += cells
    times = [position for position, name in enumerate(names) if name in ("time", "cputime")]
    if len(times) != 2:
        return None
    leading, place, second = tuple(names[: times[0]]), names[times[0] : times[1]], names[times[1] :]
    wrong_at = next((at for at, name in enumerate(place) if name in ("#wrong", "error")), None)
    known = leading[:3] == _LEADING[:3] and set(leading) <= set(_LEADING)
    if not known or place != second or place[1:3] != ["algbw", "busbw"] or wrong_at is None:
        return None
    return Columns(leading, len(place), wrong_at, place[wrong_at] == "#wrong", trailing, place[0] == "time")


def _full_row(cells: list[str], at: Columns) -> NcclRow | None:
    """A row with both places; None when a cell is not what its column holds."""
    first = len(cells) - at.trailing - 2 * at.width
    try:
        size = int(cells[0])
        return NcclRow(size, _place(cells, first, at), _place(cells, first + at.width, at)) if size < LARGEST else None
    except ValueError:
        return None


def _place(cells: list[str], first: int, at: Columns) -> NcclPlace:
    """The half of a row that begins at cell *first*; ValueError when a cell is not what its column holds."""
    time, alg, bus = cells[first : first + 3]
    numbers = float(time), float(alg), float(bus)
    if not (_whole(alg) and _whole(bus) and all([0 <= number < LARGEST for number in numbers])):
        raise ValueError(cells)
    wrong = cells[first + at.wrong_at]
    return NcclPlace(numbers[0], numbers[1] * GBPS, numbers[2] * GBPS, _wrong(wrong, at))


def row(line: str, cells: list[str], at: Columns) -> NcclRow | None:
    """A row with both places, or that of a trace replay; None when it is neither."""
    # int() and float() also take 1_000 and other scripts' digits: the tool prints neither.
    if not line.isascii() or ("_" in line and any("_" in cell for cell in (*cells[:2], *cells[3:]))):
        return None
    missing = at.cells - len(cells)
    if missing == 0 or (missing == 1 and "redop" in at.leading):
        return _full_row(cells, at)
    if missing in (at.width, at.width + 1) and _BLANK_PLACE in line.rstrip():
        doubled = cells[: -at.trailing - at.width] + 2 * cells[-at.trailing - at.width :][: at.width]
        whole = _full_row([*doubled, *["-"] * at.trailing], at)
        return None if whole is None else NcclRow(whole.size_bytes, None, whole.in_place)
    return None


def _whole(bandwidth: str) -> bool:
    """Whether a bandwidth kept its last digit: two decimals, below 1000 in every release (``%6.2f``)."""
    return bandwidth[-3:-2] == "." or len(bandwidth) > 5


def looks_like_row(cells: list[str]) -> bool:
    """Whether a line that is no readable row begins as one: size, count, type."""
    return len(cells) > 2 and cells[0].isdigit() and cells[1].isdigit() and cells[2] in TYPES


def _wrong(cell: str, at: Columns) -> int | None:
    if cell == "N/A":
        return None
    value = float(cell)
    # The count is printed with %g: 12, 1.5e+06. A plain fraction is a neighbour's cell in a row that was cut.
    if not 0 <= value < LARGEST or (at.counts_wrong and "." in cell and "e" not in cell):
        raise ValueError(cell)
    return int(value) if at.counts_wrong else None
