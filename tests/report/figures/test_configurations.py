"""Bandwidth by configuration: what stands beside what, and what a bar says."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.report.figures import bars, rings
from fabric.report.figures.configurations import collectives, compared_kinds, side_by_side
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.framed import framed, sample


def reduce_of(phase: str, gbps: float, **others: Any) -> dict[str, Any]:
    """One size of a collective over all hosts."""
    group = {"host": None, "hosts": "gpu[001-064]", "rnic": None, "endpoint": None, "op": "busbw_out_of_place"}
    row = {**group, "kind": "group_all_reduce", "phase": phase, "size_bytes": 8 << 30}
    return sample(**{"probe": f"{phase}/{gbps}", "gbps": gbps, **row, **others})


OFF_AND_ON = [
    reduce_of(f"{phase}.adaptive_routing-{word}{again}", gbps)
    for phase, word, gbps in (("healthy", "off", 900.0), ("healthy", "on", 2700.0), ("degraded", "off", 300.0))
    for again in ("", ".r2")
]


def test_rounds_are_one_configuration_and_routing_is_taken_apart() -> None:
    found = collectives(framed(samples=OFF_AND_ON))
    assert set(found["configuration"]) == {
        f"{p}.adaptive_routing-{w}" for p, w in (("healthy", "off"), ("healthy", "on"), ("degraded", "off"))
    }
    assert set(found["rest"]) == {"healthy", "degraded"}
    assert set(found["routing"]) == {"off", "on"}


def test_a_bar_says_its_mean_and_what_it_is() -> None:
    run = framed(samples=OFF_AND_ON)
    assert compared_kinds(run) == ["group_all_reduce"]
    assert not side_by_side(run, "group_all_reduce")
    assert {"900", "2,700", "300", "AR off", "AR on", "healthy", "degraded"} <= texts(bars(run, "group_all_reduce"))


def test_of_both_directions_the_lower_number_counts() -> None:
    rows = [reduce_of("p", 100.0), {**reduce_of("p", 100.0), "op": "busbw_in_place", "gbps": 90.0}]
    assert list(collectives(framed(samples=rows))["gbps"]) == [90.0]


def test_rings_side_by_side_say_how_far_apart_they_are() -> None:
    rows = [
        reduce_of(f"rings.adaptive_routing-{word}", gbps, hosts=f"gpu{number}", probe=f"{word}{number}")
        for word, each in (("off", (1000.0, 3000.0)), ("on", (3000.0, 3000.0)))
        for number, gbps in enumerate(each)
    ]
    run = framed(samples=rows)
    assert side_by_side(run, "group_all_reduce")
    assert {"mean 2,000, CV 50.0%", "mean 3,000, CV 0.0%"} <= texts(rings(run, "group_all_reduce"))


def test_adaptive_routing_under_bit_errors_has_four_bars(changed_run: ShownRun) -> None:
    drawn = bars(changed_run.frames, "group_all_reduce")
    assert len(drawn.axes[0].patches) == pytest.approx(4)
