"""The embedded table holds every measurement, worst first, and is read as it was written."""

from __future__ import annotations

from base64 import b64decode
from typing import Any
from zlib import decompress

import numpy as np
import pytest

from fabric.report import table as tables
from fabric.report.shown_run import ShownRun
from fabric.report.table import table
from tests.report.framed import framed, pair, sample


def unpacked(document: dict[str, Any], name: str) -> list[Any]:
    """A column as the page reads it; None where it has no value."""
    column = next(one for one in document["columns"] if one["name"] == name)
    codes = np.frombuffer(decompress(b64decode(column["data"])), f"<u{column['bytes']}")
    return [None if code == 0 else column["values"][code - 1] for code in codes]


def test_every_measurement_is_in_it(bad_run: ShownRun) -> None:
    document, frame = table(bad_run.frames), bad_run.frames.samples
    assert document["rows"] == len(frame)
    assert document["left_out"] == 0
    found = sorted(
        zip(unpacked(document, "kind"), unpacked(document, "series"), unpacked(document, "Gb/s"), strict=True), key=str
    )
    assert found == sorted(
        zip(
            frame["kind"],
            frame["series"],
            [None if value != value else value for value in frame["gbps"].round(1)],
            strict=True,
        ),
        key=str,
    )


def test_the_worst_comes_first_with_a_reason() -> None:
    rows = [
        sample("a", 400.0),
        sample("b", 200.0, outcome="fail", reason="200 of 390"),
        sample("c", 120.0, outcome="fail", reason="120 of 390"),
        sample("d", None, outcome="error", reason="no answer"),
        sample("e", 396.0, reason="judged by what is expected"),
    ]
    document = table(framed(samples=rows))
    assert unpacked(document, "why") == ["120 of 390", "200 of 390", "no answer", None, None]
    assert unpacked(document, "outcome") == ["FAIL", "FAIL", "ERROR", "PASS", "PASS"]
    assert unpacked(document, "% of normal") == [30.0, 50.0, None, 99.0, 100.0]


def test_two_hosts_stand_beside_each_other_and_more_are_found_by_their_names() -> None:
    rows = [pair("a", "gpu002", "gpu001"), sample("b", host=None, hosts="gpu[001-004]"), sample("c", host="gpu003")]
    document = table(framed(samples=rows))
    assert set(unpacked(document, "host")) == {"gpu002 + gpu001", "gpu[001-004]", "gpu003"}
    assert list(document["members"].values()) == [("gpu001", "gpu002", "gpu003", "gpu004")]


def test_of_too_many_rows_the_worst_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    rows = [sample(f"p/{number}", 400.0 - number, outcome="fail" if number == 3 else "pass") for number in range(5)]
    document = table(framed(samples=rows))
    assert document["left_out"] == 3
    assert unpacked(document, "Gb/s") == [397.0, 396.0]


def test_many_different_reasons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_REASONS", 5)
    rows = [sample(f"p/{number}", None, outcome="error", reason=f"{number} {'x' * 5000}") for number in range(9)]
    reasons = unpacked(table(framed(samples=rows)), "why")
    assert len(set(reasons)) == 6
    assert max(map(len, reasons)) <= 240
    assert reasons.count("see verdict.json") == 4
