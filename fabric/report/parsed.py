"""What ``fabric parse`` shows: the JSON document of a log, and its summary in lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from fabric.model.text import size_text
from fabric.tools import nccl, perftest

_SHOWN = ("op", "ranks", "test", "device", "rows", "avg_busbw_gbps", "complete", "problems")
"""What a document has of a test; unknown values are null, bandwidth is Gb/s."""


def parsed_document(tool: str, text: str) -> dict[str, Any]:
    """The document of one log; *tool* is ``nccl-tests`` or ``perftest``."""
    log = nccl.parse(text) if tool == "nccl-tests" else perftest.parse(text)
    tests: list[dict[str, Any]] = [
        {name: to_jsonable_python(getattr(test, name)) for name in _SHOWN if hasattr(test, name)} for test in log.tests
    ]
    for row in (row for test in tests for row in test["rows"] if "in_place" in row):
        row["out_of_place"] = row["out_of_place"] or dict.fromkeys(row["in_place"])
    return {"tool": tool, "tests": tests, "failures": [asdict(seen) for seen in log.failures]}


def parsed_lines(document: dict[str, Any], name: str) -> Iterator[str]:
    """A few lines a person can check against the log."""
    if not document["tests"] and not document["failures"]:
        yield f"{name}: no {document['tool']} output found"
    for test in document["tests"]:
        what = test.get("op") or test.get("test") or "unknown test"
        yield f"{name}: {what}: {len(test['rows'])} rows{_best(test['rows'])}{_average(test)}"
        for problem in test["problems"]:
            yield f"  problem: {problem}"
    for failure in document["failures"]:
        host = f"{failure['host']}: " if failure.get("host") else ""
        yield f"{name}: failure: {failure['kind']}: {host}{failure['text']}"


def _best(rows: list[dict[str, Any]]) -> str:
    measured = [(row["size_bytes"], _bandwidth(row)) for row in rows]
    known = [(size, value) for size, value in measured if size is not None and value is not None]
    if not known:
        return ""
    size_bytes, value = max(known)
    return f", at {size_text(size_bytes)} {value:.2f} Gb/s"


def _bandwidth(row: dict[str, Any]) -> float | None:
    value = row["bw_average_gbps"] if "bw_average_gbps" in row else (row["out_of_place"] or {}).get("busbw_gbps")
    return value if isinstance(value, float) else None


def _average(test: dict[str, Any]) -> str:
    if test.get("avg_busbw_gbps") is None:
        return ""
    return (
        f", average bus bandwidth {test['avg_busbw_gbps']:.3f} Gb/s ({test['avg_busbw_gbps'] / 8:.4f} GB/s as printed)"
    )
