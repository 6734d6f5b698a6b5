"""Whether an nccl-tests table agrees with itself: rows lost, numbers altered, results wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fabric.model.units import size_text
from fabric.tools.nccl_log import NcclRow
from fabric.tools.nccl_ops import HALF_STEP, Value, factor, ratio, values

# The algbw of these is of other bytes than the size column's (alltoallv.cu, hypercube.cu).
_NOT_SIZE_OVER_TIME = frozenset({"alltoallv", "hypercube"})


def disagreements(
    rows: Sequence[NcclRow], *, op: str | None, ranks: int | None, average: float | None, timed: bool
) -> list[str]:
    """
    What does not add up, in words; *average* is the printed one, in GB/s.

    *timed*: the time column is the one that the bandwidth was computed from.
    """
    seen = values(rows)
    found = [*_average(seen, len(rows), average), *_ratio(seen, op, ranks)]
    if timed and op not in _NOT_SIZE_OVER_TIME:
        found += _time(seen, op)
    return found


def wrong_rows(rows: Sequence[NcclRow]) -> str | None:
    """Which sizes have wrong elements, None when none has."""
    sizes = [row.size_bytes for row in rows if row.in_place.wrong or (row.out_of_place and row.out_of_place.wrong)]
    return f"wrong elements at {_sizes(sizes)}" if sizes else None


def _average(seen: Sequence[Value], rows: int, average: float | None) -> list[str]:
    if average is None:
        return []
    if not seen:
        return [f"no rows, printed average is {average:g}: rows were lost"]
    busbw = [value[3] for value in seen]
    mean = math.fsum(busbw) / len(busbw)
    if abs(mean - average) <= _step(max(busbw)) + _printed_step(average):
        return []
    return [f"mean of {rows} rows is {mean:.4f}, printed average is {average:g}: rows were lost or altered"]


def _step(value: float) -> float:
    """By how much a printed bandwidth may be off: two decimals, one from 1000 and none from 10000 (width 6)."""
    return HALF_STEP if value < 999.995 else 0.05 if value < 9999.95 else 0.5


def _printed_step(average: float) -> float:
    """By how much the printed average (%g: six digits) may be off."""
    return float(0.5 * 10.0 ** (math.floor(math.log10(average)) - 5)) + 1e-9 if average > 0 else 1e-9


def _ratio(seen: Sequence[Value], op: str | None, ranks: int | None) -> list[str]:
    expected = factor(op, ranks)
    if expected is None:
        bounds = ratio(seen)
        return ["busbw/algbw differs between rows: values were altered"] if bounds and bounds.contradictory else []
    least = HALF_STEP * (1 + expected)  # what rounding explains in every row; large values may be off by more
    suspects = [value for value in seen if abs(value[3] - value[2] * expected) > least]
    bad = [size for size, _, alg, bus in suspects if not _keeps(alg, bus, expected)]
    if not bad:
        return []
    of = f"{op} of {ranks} ranks" if ranks is not None else op
    return [f"busbw/algbw is not the {expected:.5g} of {of} at {_sizes(bad)}"]


def _keeps(alg: float, bus: float, expected: float) -> bool:
    return abs(bus - alg * expected) <= _step(bus) + expected * _step(alg) + 1e-9


def _time(seen: Sequence[Value], op: str | None) -> list[str]:
    # 5 and 5: what rounding to two decimals explains, see _took; most rows are within it.
    suspects = [value for value in seen if abs(value[2] * value[1] * 1e3 - value[0]) > 5 * (value[1] + value[2])]
    bad = [size for size, time, alg, _ in suspects if not _took(size, time, alg)]
    # An unknown collective may be one whose bandwidth is of other bytes: then (nearly) every row differs.
    if not bad or (op is None and 2 * len(bad) > len(seen)):
        return []
    return [f"algbw is not size/time at {_sizes(bad)}"]


def _took(size_bytes: int, time_us: float, alg: float) -> bool:
    """Size = algbw x time, but for rounding: 1 GB/s x 1 us is 1000 bytes."""
    if time_us >= 1e7:  # printed with two digits
        return True
    time_step = HALF_STEP if time_us < 100 else 0.05 if time_us < 10_000 else 0.5
    slack = _step(alg) * (time_us + time_step) + alg * time_step
    return abs(alg * time_us * 1e3 - size_bytes) <= 1e3 * slack + 1e-6


def _sizes(sizes_bytes: Sequence[int]) -> str:
    """``64M, 128M and 3 more``."""
    sizes_bytes = list(dict.fromkeys(sizes_bytes))
    shown = ", ".join(size_text(size) for size in sizes_bytes[:3])
    return f"{shown} and {len(sizes_bytes) - 3} more" if len(sizes_bytes) > 3 else shown
