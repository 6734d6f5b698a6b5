"""Baselines in words: every number has its unit, and what differs is said."""

from __future__ import annotations

from dataclasses import asdict

from fabric.judge.normal.baseline import changes_between
from fabric.model.recorded import Key, Recorded
from fabric.model.verdict import Baseline, Limit
from fabric.report.baseline import baseline_lines, change_lines, recorded_lines

KEY = Key("loopback", "perftest", "pix", 8 << 20, direction="one_way", line_rate_gbps=400.0)
GOOD, LESS = (
    Recorded(**asdict(KEY), median_gbps=median, mad_gbps=0.5, n=40, cv=0.002, runs=("self-check/1",))
    for median in (397.6, 380.0)
)
PIX = Limit("loopback", 380.0, "a source", "pix", min_size_bytes=1 << 20)


def test_the_unit_belongs_to_the_number_and_the_line_rate_is_called_so() -> None:
    [line] = recorded_lines([GOOD])
    assert line.startswith("loopback pix 8M one_way line rate 400 Gb/s  median 397.6 Gb/s  CV 0.0020")
    assert change_lines(changes_between([GOOD], [LESS])) == [
        "loopback pix 8M one_way line rate 400 Gb/s  397.6 Gb/s  ->  380.0 Gb/s  -4.4%"
    ]
    assert any("at least 380 Gb/s" in line for line in baseline_lines(Baseline("b", "b.yaml", (PIX,))))
