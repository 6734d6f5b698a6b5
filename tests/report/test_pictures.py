"""What the picture of the network shows, and how the page sets reasons."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from fabric.report.html import fabric_map
from fabric.report.html.page import page
from fabric.report.shown_run import ShownRun


def test_a_suspected_cable_is_a_line_from_host_to_leaf(bad_run: ShownRun) -> None:
    assert bad_run.judged.verdict.suspects[0].component == "gpu002/mlx5_3"
    drawn = str(fabric_map.draw(bad_run))
    assert len(re.findall(r'class="suspected b-fail"', drawn)) == 1
    without = replace(bad_run, judged=replace(bad_run.judged, verdict=replace(bad_run.judged.verdict, suspects=())))
    assert "suspected b-" not in str(fabric_map.draw(without))


def test_no_mark_of_the_network_is_cut_at_its_edge() -> None:
    places = fabric_map.spread_tier("hosts", 0.0, [f"gpu{number:04}" for number in range(2048)]).places.values()
    assert min(x for x, _ in places) >= fabric_map.MARGIN > 0
    assert max(x for x, _ in places) <= fabric_map.WIDTH - fabric_map.MARGIN


def test_a_cable_does_not_run_over_the_name_of_a_tier(bad_run: ShownRun) -> None:
    drawn = str(fabric_map.draw(bad_run))
    assert drawn.index('class="suspected b-fail"') < drawn.index(">hosts: 4<")


def test_the_sign_of_a_bad_cable_is_in_its_middle_and_not_on_a_switch(bad_run: ShownRun) -> None:
    """On its ends it would say that leaf and spine are bad."""
    assert fabric_map.sign_place("su0-leaf3--spine02", (0.0, 100.0), (60.0, 0.0)) == (30.0, 50.0)
    assert fabric_map.sign_place("gpu002/mlx5_3:port", (0.0, 100.0), (60.0, 0.0)) == (30.0, 50.0)
    assert fabric_map.sign_place("gpu002/mlx5_3", (0.0, 100.0), (60.0, 0.0)) == (0.0, 100.0)
    drawn = str(fabric_map.draw(bad_run))
    assert drawn.count('class="mark m-fail"') == 2, "the suspect, and the legend"


def test_no_sign_of_the_network_hides_another() -> None:
    """Two bad hosts of 2,048 are a pixel apart."""
    signs: list[tuple[float, float]] = []
    places = [fabric_map.free_place((12.0 + number, 190.0), signs) for number in range(4)]
    at = sorted(x for x, _ in places)
    assert all(right - left >= 17 for left, right in pairwise(at))


def test_the_detail_of_a_reason_is_set_below_it(bad_run: ShownRun) -> None:
    verdict = replace(bad_run.judged.verdict, reasons=("SKIPPED: 4 of 10", "  gpu003: did not pass"))
    shown = page(replace(bad_run, judged=replace(bad_run.judged, verdict=verdict)))
    assert "<li>SKIPPED: 4 of 10</li>" in shown
    assert '<li class="under">  gpu003: did not pass</li>' in shown


def test_the_leaf_of_a_suspected_rnic_has_its_name(bad_run: ShownRun) -> None:
    leaf = bad_run.inventory.topology.hosts["gpu002"].leaves[3]
    assert f">{leaf}</text>" in str(fabric_map.draw(bad_run))
