"""The lines of an nccl-tests table, with the columns that its heading announces, and what they say together.

Together they say which collective a table is of, and over how many ranks, where the log does not; and whether the table
agrees with itself. Bus bandwidth is algorithm bandwidth times a factor (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for
all_reduce, (n-1)/n for all_gather, reduce_scatter, alltoall, gather and scatter, 1 else. So the ratio of the two
columns, together with which of the redop and root columns are filled, says what was run; where two collectives fit, a
wrong count printed out of place but not in place tells alltoall and sendrecv (which are not checked in place). What
remains ambiguous stays None. alltoallv and hypercube are never inferred.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from fabric.model.text import size_text, some

GBPS = 8.0
"""Gb/s per GB/s: nccl-tests prints decimal GB/s; this is the only place that converts them."""

TYPES = frozenset(
    {
        *("int8", "uint8", "int32", "uint32", "int64", "uint64", "char", "int"),
        *("half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"),
    }
)
"""Names in the ``type`` column."""

LARGEST = 1e15
"""Bound of every printed number; larger ones, infinity and NaN are not readable."""

_BLANK_PLACE = r" {32,}"  # printed by a trace replay instead of the out-of-place half
_TIME = r"(\d{1,15}(?:\.\d{1,9})?)"
# Two decimals, below 1000 in every release (%6.2f); one that is shorter lost its last digit. The lab's program: %6.4f.
_BANDWIDTH = r"(\d{1,12}\.\d\d(?:\d\d)?|\d{4,13}\.\d|\d{6,15})"
# The count is printed with %g: 12, 1.5e+06. A plain fraction is a neighbour's cell in a row that was cut.
_COUNT, _ERROR = r"(N/A|0|[1-9]\d{0,14}|\d(?:\.\d{1,9})?e\+?\d\d)", r"(N/A|\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d\d)?)"
_LEADING = ("size", "count", "type", "redop", "root")


class NcclPlace(NamedTuple):
    """One half of a row; *wrong* counts wrong elements, None where that was not printed."""

    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int | None


class NcclRow(NamedTuple):
    """One message size; *out_of_place* is None in a trace replay, which runs in place only."""

    size_bytes: int
    out_of_place: NcclPlace | None
    in_place: NcclPlace


@dataclass(frozen=True)
class Columns:
    """
    Where the values of a row are, counted from its end: leading cells may be blank (old alltoall prints no redop).

    A place is *width* cells: time, algbw, busbw, others (copy bandwidth, per-iteration times), and the wrong count at
    *wrong_at*. *counts_wrong* is False where that cell is the relative error of releases before 2022-08.
    """

    leading: tuple[str, ...]
    width: int
    wrong_at: int
    counts_wrong: bool
    trailing: int  # cells after the places: a timestamp is two; RCCL's algorithm, protocol and channels are three

    @cached_property
    def cells(self) -> int:
        """Return how many cells a full row has."""
        return len(self.leading) + 2 * self.width + self.trailing

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """
        Return the pattern of a row: its size; type, reduction and root; of each place time, algbw, busbw and the wrong
        count.

        The first place is blank in a trace replay.
        """
        names = len(self.leading) - 2
        optional = f"{{{names - ('redop' in self.leading)},{names}}}"
        cells = [_TIME, _BANDWIDTH, _BANDWIDTH, *[r"[!-~]+"] * (self.width - 3)]
        cells[self.wrong_at] = _COUNT if self.counts_wrong else _ERROR
        place = "".join(rf"\s+{cell}" for cell in cells)
        kind, last = rf"((?:\s+[!-~]+){optional})", rf"(?:\s+[!-~]+){{{self.trailing}}}\s*"
        return re.compile(rf"\s*(\d{{1,15}})\s+\d+{kind}(?:{place}|{_BLANK_PLACE}){place}{last}", re.ASCII)


@lru_cache(maxsize=64)
def columns(*heading: str) -> Columns | None:
    """Return the layout that a heading (its words after ``#``) announces; None for an unknown one."""
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
    return Columns(leading, len(place), wrong_at, place[wrong_at] == "#wrong", trailing)


def row(found: re.Match[str], at: Columns) -> NcclRow:
    """Return the row that the *pattern* of its columns found."""
    size, _, *cells = found.groups()
    return NcclRow(int(size), _place(cells[:4], at) if cells[0] else None, _place(cells[4:], at))


def _place(cells: Sequence[str], at: Columns) -> NcclPlace:
    time, alg, bus, wrong = cells
    count = None if wrong == "N/A" or not at.counts_wrong else int(float(wrong))
    return NcclPlace(float(time), float(alg) * GBPS, float(bus) * GBPS, count)


def looks_like_row(cells: list[str]) -> bool:
    """Return whether a line that is not a readable row begins as a row does: size, count, type."""
    return len(cells) > 2 and cells[0].isdigit() and cells[1].isdigit() and cells[2] in TYPES


Value = tuple[int, float, float]
"""One place of one row as printed: size in bytes, algbw and busbw in GB/s."""

_TWICE, _ONCE, _ONE = "2(n-1)/n", "(n-1)/n", "1"

FACTOR = {
    "all_reduce": _TWICE,
    "all_gather": _ONCE,
    "reduce_scatter": _ONCE,
    "alltoall": _ONCE,
    "alltoallv": _ONCE,
    "gather": _ONCE,
    "scatter": _ONCE,
    "broadcast": _ONE,
    "reduce": _ONE,
    "sendrecv": _ONE,
    "hypercube": _ONE,
}
"""The factor from algorithm bandwidth to bus bandwidth, by collective."""

UNCHECKED_IN_PLACE = frozenset({"alltoall", "sendrecv"})
"""Collectives whose in-place results nccl-tests does not check: their wrong count is N/A."""

HALF_STEP = 0.005
"""Rounding error of bandwidth, which has two decimals (GB/s) below 1000."""

_MOST_RANKS = 1 << 12  # that are tried where the log does not list them; a choice


def factor(op: str | None, ranks: int | None) -> float | None:
    """Return busbw/algbw of a collective over *ranks* ranks, None when that is not known."""
    kind = FACTOR.get(op or "")
    if kind == _ONE:
        return 1.0
    if kind is None or ranks is None or ranks < 1:
        return None
    return (ranks - 1) / ranks * (2 if kind == _TWICE else 1)


def values(rows: Sequence[NcclRow]) -> list[Value]:
    """Return every place of every row, in the order printed."""
    return [
        (row.size_bytes, place.algbw_gbps / GBPS, place.busbw_gbps / GBPS)
        for row in rows
        for place in (row.out_of_place, row.in_place)
        if place is not None
    ]


def ratio(seen: Sequence[Value]) -> tuple[float, float] | None:
    """
    Return bounds of busbw/algbw, given that both are rounded; None when no value is large enough.

    Only the larger half of the values counts, so that a row among the small ones cannot spoil it. The lower bound is
    above the upper one when no factor fits every row.
    """
    pairs = sorted([(alg, bus) for _, alg, bus in seen if 0 < alg < 999 and 0 < bus < 999])  # more has fewer decimals
    if not pairs:
        return None
    pairs = pairs[len(pairs) // 2 :]
    low = max([(bus - HALF_STEP) / (alg + HALF_STEP) for alg, bus in pairs])
    high = min([(bus + HALF_STEP) / max(alg - HALF_STEP, 1e-9) for alg, bus in pairs])
    return low - 1e-9, high + 1e-9


def inferred(
    first: Sequence[str], at: Columns, rows: Sequence[NcclRow], *, op: str | None, ranks: int | None
) -> tuple[str | None, int | None]:
    """Return collective and ranks; given ones are kept. *first* holds the cells of the first row."""
    bounds = ratio(values(rows)) if op is None or ranks is None else None
    if bounds is None:
        return op, ranks
    names = _candidates(first, at, rows) if op is None else (op,)
    counts = range(2, _MOST_RANKS) if ranks is None else (ranks,)
    fitting = [(name, n) for name in names for n in counts if bounds[0] <= (factor(name, n) or -1.0) <= bounds[1]]
    ops, of_ranks = {name for name, _ in fitting}, {n for _, n in fitting}
    return ops.pop() if len(ops) == 1 else op, of_ranks.pop() if len(of_ranks) == 1 else ranks


def _candidates(first: Sequence[str], at: Columns, rows: Sequence[NcclRow]) -> tuple[str, ...]:
    """Return the collectives that print these columns, and check these results."""
    names = at.leading[3:]
    blank = len(first) < at.cells
    if not at.counts_wrong:  # until 2022-08 each collective had columns of its own
        if names == ("redop",):
            return ("alltoall",) if blank else ("all_reduce", "reduce_scatter")
        return {
            (): ("all_gather", "sendrecv"),
            ("root",): ("broadcast", "gather", "scatter"),
            ("redop", "root"): ("reduce",),
        }.get(names, ())
    if names != ("redop", "root") or blank:
        return ()
    reduces, rooted = first[3] != "none", first[4] != "-1"
    if rooted:
        return ("reduce",) if reduces else ("broadcast", "gather", "scatter")
    found = ("all_reduce", "reduce_scatter", "sendrecv") if reduces else ("all_gather", "alltoall")
    if any(row.out_of_place is None or row.out_of_place.wrong is None for row in rows):
        return found  # nothing was checked
    checked = all(row.in_place.wrong is not None for row in rows)
    return tuple(name for name in found if (name not in UNCHECKED_IN_PLACE) == checked)


def disagreements(rows: Sequence[NcclRow], *, op: str | None, ranks: int | None, average: float | None) -> list[str]:
    """Return what does not add up, in words; *average* is the printed one, in GB/s."""
    seen = values(rows)
    return [*_average(seen, len(rows), average), *_ratio(seen, op, ranks)]


def wrong_rows(rows: Sequence[NcclRow]) -> str | None:
    """Return which sizes have wrong elements, None when none has."""
    sizes = [row.size_bytes for row in rows if row.in_place.wrong or (row.out_of_place and row.out_of_place.wrong)]
    return f"wrong elements at {_sizes(sizes)}" if sizes else None


def _average(seen: Sequence[Value], rows: int, average: float | None) -> list[str]:
    if average is None:
        return []
    if not seen:
        return [f"no rows, printed average is {average:g}: rows were lost"]
    busbw = [bus for _, _, bus in seen]
    mean = math.fsum(busbw) / len(busbw)
    if abs(mean - average) <= _step(max(busbw)) + _printed_step(average):
        return []
    return [f"mean of {rows} rows is {mean:.4f}, printed average is {average:g}: rows were lost or altered"]


def _step(value: float) -> float:
    """Return the rounding error of a printed bandwidth: two decimals, one from 1000 and none from 10000 (width 6)."""
    return HALF_STEP if value < 999.995 else 0.05 if value < 9999.95 else 0.5


def _printed_step(average: float) -> float:
    """Return the rounding error of the printed average (%g: six digits)."""
    return float(0.5 * 10.0 ** (math.floor(math.log10(average)) - 5)) + 1e-9 if average > 0 else 1e-9


def _ratio(seen: Sequence[Value], op: str | None, ranks: int | None) -> list[str]:
    expected = factor(op, ranks)
    if expected is None:
        bounds = ratio(seen)
        return ["busbw/algbw differs between rows: values were altered"] if bounds and bounds[0] > bounds[1] else []
    bad = [size for size, alg, bus in seen if not _keeps(alg, bus, expected)]
    of = f"{op} of {ranks} ranks" if ranks is not None else op
    return [f"busbw/algbw is not the {expected:.5g} of {of} at {_sizes(bad)}"] if bad else []


def _keeps(alg: float, bus: float, expected: float) -> bool:
    return abs(bus - alg * expected) <= _step(bus) + expected * _step(alg) + 1e-9


def _sizes(sizes_bytes: Sequence[int]) -> str:
    """Return sizes as text: ``64M, 128M and 3 more``."""
    return some([size_text(size) for size in dict.fromkeys(sizes_bytes)], 3)
