"""Baselines in words: every number has its unit, and what differs is said of limits and of records."""

from __future__ import annotations

from fabric.judge.normal.limits import changes_between, limit_changes
from fabric.model.recorded import Key, Recorded
from fabric.model.verdict import Baseline, Limit
from fabric.report.baseline import baseline_lines, change_lines, changes_document, diff_lines, recorded_lines

KEY = Key("loopback", "perftest", "pix", 8 << 20, direction="one_way", line_rate_gbps=400.0)
GOOD, LESS = (Recorded(KEY, median, 0.5, 40, 0.002, ("self-check/1",)) for median in (397.6, 380.0))
PIX, LOWER = (Limit("loopback", gbps, "a source", "pix", min_size_bytes=1 << 20) for gbps in (380.0, 190.0))
RING = Limit("tor_all_reduce", 368.0, "a source", algorithm="RING", per_rnic=True)


def test_the_unit_belongs_to_the_number_and_the_line_rate_is_called_so() -> None:
    [line] = recorded_lines([GOOD])
    assert line.startswith("loopback pix 8M one_way line rate 400 Gb/s  median 397.6 Gb/s  CV 0.0020")
    assert change_lines(changes_between([GOOD], [LESS])) == [
        "loopback pix 8M one_way line rate 400 Gb/s  397.6 Gb/s  ->  380.0 Gb/s  -4.4%"
    ]
    assert any("at least 380 Gb/s" in line for line in baseline_lines(Baseline("b", "b.yaml", (PIX,))))


def test_limits_that_differ_are_a_difference() -> None:
    assert diff_lines(limit_changes([PIX, RING], [LOWER]), []) == [
        "Limits",
        "  loopback pix from 1M on  at least 380 Gb/s                ->  at least 190 Gb/s",
        "  tor_all_reduce RING      at least 368 Gb/s for each RNIC  ->  gone",
    ]


def test_another_source_is_no_difference() -> None:
    again = Limit("loopback", 380.0, "another source", "pix", min_size_bytes=1 << 20)
    assert diff_lines(limit_changes([PIX], [again]), changes_between([GOOD], [GOOD])) == ["no difference"]


def test_a_candidate_has_no_limits_and_that_is_said() -> None:
    assert diff_lines(None, []) == ["no difference", "limits are not compared: a candidate has none"]


def test_json_tells_limits_from_records() -> None:
    found = changes_document(limit_changes([PIX], [LOWER]), changes_between([GOOD], [LESS]))
    assert [(one["what"], one["old_gbps"], one["new_gbps"]) for one in found] == [
        ("limit", 380.0, 190.0),
        ("recorded", 397.6, 380.0),
    ]
    assert found[0]["key"]["link_class"] == "pix"
