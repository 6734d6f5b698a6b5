"""The embedded table holds every measurement, and is read as it was written."""

from __future__ import annotations

from array import array
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from fabric.report.html import columns
from fabric.report.html.columns import table
from fabric.report.html.shares import medians
from fabric.report.shown_run import ShownRun


def unpacked(document: dict[str, Any], name: str) -> list[float]:
    """A column as the page reads it."""
    packed = document["columns"][name]
    return list(array(packed["type"], b64decode(packed["data"])))


def test_every_measurement_is_in_it(bad_run: ShownRun) -> None:
    document = table(bad_run, medians(bad_run))
    found, start = [], 0
    values = unpacked(document, "value")
    for what, shape, outcome in zip(*(unpacked(document, name) for name in ("what", "shape", "outcome")), strict=True):
        phase, kind, _ = document["what"][int(what)]
        for metric, size, unit in document["shapes"][int(shape)]:
            found.append((phase, kind, metric, size, unit, round(values[start], 2), document["outcomes"][int(outcome)]))
            start += 1
    expected = [
        (row.probe.phase, row.probe.kind, m.metric, m.size_bytes, m.unit, round(m.value, 2), row.verdict.outcome.value)
        for row in bad_run.rows
        if row.result is not None
        for m in row.result.measurements
    ]
    assert [row[:5] for row in found] == [row[:5] for row in expected]
    assert all(abs(a[5] - b[5]) < 0.01 and a[6] == b[6] for a, b in zip(found, expected, strict=True))


def test_participants_point_at_hosts(bad_run: ShownRun) -> None:
    document = table(bad_run, {})
    for row, who in zip(bad_run.rows, unpacked(document, "who"), strict=True):
        entry = document["who"][int(who)]
        members = [entry] if isinstance(entry, int) else entry[1]
        assert tuple(document["hosts"][member] for member in members) == row.probe.hosts


def test_too_many_probes_keep_those_that_did_not_pass(bad_run: ShownRun, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = sum(row.verdict.outcome.value != "pass" for row in bad_run.rows)
    monkeypatch.setattr(columns, "MOST_PROBES", bad + 3)
    document = table(bad_run, {})
    outcomes = [document["outcomes"][int(number)] for number in unpacked(document, "outcome")]
    assert outcomes.count("pass") == 3
    assert len(outcomes) == bad + 3
    assert document["left_out"] == len(bad_run.rows) - bad - 3


def test_many_different_reasons_are_bounded(bad_run: ShownRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_REASONS", 5)
    verdict = bad_run.judged.verdict
    probes = tuple(
        replace(probe, reason=f"{index} {'x' * 5000}", value_gbps=None) for index, probe in enumerate(verdict.probes)
    )
    run = replace(bad_run, judged=replace(bad_run.judged, verdict=replace(verdict, probes=probes)))
    reasons = table(run, {})["reasons"]
    assert len(reasons) == 6
    assert max(map(len, reasons)) <= 240
    assert reasons[-1].startswith("and more")
