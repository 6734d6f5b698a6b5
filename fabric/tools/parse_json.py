"""The documents that ``fabric parse --json`` prints, one for each tool; unknown values are null, bandwidth is Gb/s."""

from __future__ import annotations

from fabric.tools.nccl import NcclLog, NcclPlace, NcclTest
from fabric.tools.perftest import PerftestLog, PerftestTest

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def nccl_document(log: NcclLog) -> dict[str, Json]:
    """An nccl-tests log."""
    return {
        "tool": "nccl-tests",
        "tests": [_nccl_test(test) for test in log.tests],
        "failures": [{"host": seen.host, "kind": seen.kind, "text": seen.text} for seen in log.failures],
    }


def perftest_document(log: PerftestLog) -> dict[str, Json]:
    """A perftest log."""
    return {
        "tool": "perftest",
        "tests": [_perftest_test(test) for test in log.tests],
        "failures": [{"kind": seen.kind, "text": seen.text} for seen in log.failures],
    }


def _nccl_test(test: NcclTest) -> Json:
    return {
        "op": test.op,
        "ranks": test.ranks,
        "rows": [
            {"size_bytes": row.size_bytes, "out_of_place": _place(row.out_of_place), "in_place": _place(row.in_place)}
            for row in test.rows
        ],
        "avg_busbw_gbps": test.avg_busbw_gbps,
        "complete": test.complete,
        "problems": list(test.problems),
    }


def _place(place: NcclPlace | None) -> Json:
    return {
        "time_us": place.time_us if place else None,
        "algbw_gbps": place.algbw_gbps if place else None,
        "busbw_gbps": place.busbw_gbps if place else None,
        "wrong": place.wrong if place else None,
    }


def _perftest_test(test: PerftestTest) -> Json:
    return {
        "test": test.test,
        "device": test.device,
        "rows": [
            {
                "size_bytes": row.size_bytes,
                "iterations": row.iterations,
                "bw_peak_gbps": row.bw_peak_gbps,
                "bw_average_gbps": row.bw_average_gbps,
            }
            for row in test.rows
        ],
        "problems": list(test.problems),
    }
