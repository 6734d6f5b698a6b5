"""What the pictures of a page leave out, and what they must show."""

from __future__ import annotations

import re
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.report.html import fabric_map, heat, pairs, timeline
from fabric.report.html.scale import Scale
from fabric.report.html.shares import medians
from fabric.report.html.timeline_levels import Level
from fabric.report.shown_run import ShownRun


def with_values(run: ShownRun, kind: str, outcome: Outcome) -> ShownRun:
    """The same run where probes of one kind that one host makes alone gave no number."""
    ids = {row.probe.probe_id for row in run.rows if row.probe.kind == kind}
    probes = tuple(
        replace(one, value_gbps=None, outcome=outcome) if one.probe_id in ids else one
        for one in run.judged.verdict.probes
    )
    return replace(run, judged=replace(run.judged, verdict=replace(run.judged.verdict, probes=probes)))


def columns(run: ShownRun) -> set[str]:
    """Kinds that have a column."""
    return {kind for kind, _ in heat.heat_map(run, medians(run)).columns}


def test_a_column_that_tells_nothing_is_dropped(bad_run: ShownRun) -> None:
    assert "all_to_all" in columns(bad_run)
    quiet = with_values(bad_run, "all_to_all", Outcome.PASS)
    found = heat.heat_map(quiet, medians(quiet))
    assert {kind for kind, _ in found.columns} == columns(bad_run) - {"all_to_all"}
    assert all(label[0] != "all_to_all" for own in found.cells.values() for label in own)


def test_a_column_without_numbers_stays_where_something_did_not_pass(bad_run: ShownRun) -> None:
    assert "all_to_all" in columns(with_values(bad_run, "all_to_all", Outcome.ERROR))


def test_a_suspected_cable_is_a_line_from_host_to_leaf(bad_run: ShownRun) -> None:
    assert bad_run.judged.verdict.suspects[0].component == "gpu002/mlx5_3"
    drawn = str(fabric_map.draw(bad_run))
    assert len(re.findall(r'class="suspected b-fail"', drawn)) == 1
    without = replace(bad_run, judged=replace(bad_run.judged, verdict=replace(bad_run.judged.verdict, suspects=())))
    assert "suspected b-" not in str(fabric_map.draw(without))


def test_no_mark_of_the_network_is_cut_at_its_edge() -> None:
    places = fabric_map._tier("hosts", 0.0, [f"gpu{number:04}" for number in range(2048)]).places.values()
    assert min(x for x, _ in places) >= fabric_map._MARGIN > 0
    assert max(x for x, _ in places) <= fabric_map._WIDTH - fabric_map._MARGIN


def test_rounds_of_a_phase_are_one_matrix(bad_run: ShownRun) -> None:
    """Else a burn-in of two days shows its first six rounds, and nothing of the rest."""
    row = next(row for row in bad_run.rows if len(row.probe.hosts) == 2)
    phases = tuple(Phase(f"soak-r{number}", (), label="soak", round=number) for number in range(1, 5))
    probes = [
        replace(row.probe, probe_id=f"{phase.name}/{number}", phase=phase.name, hosts=hosts)
        for phase in phases
        for number, hosts in enumerate([("gpu001", "gpu002"), ("gpu003", "gpu004")])
    ]
    verdict = replace(
        bad_run.judged.verdict, probes=tuple(replace(row.verdict, probe_id=probe.probe_id) for probe in probes)
    )
    scenario = replace(bad_run.judged.scenario, phases=phases)
    judged = replace(bad_run.judged, verdict=verdict, scenario=scenario)
    found = pairs.pair_matrices(ShownRun(judged, bad_run.inventory, probes, {}, bad_run.document))
    assert [one.name for one in found] == [f"{row.probe.kind} in 4 rounds of soak"]


def test_hours_are_hours(bad_run: ShownRun) -> None:
    assert ">seconds<" in str(timeline.draw(bad_run))
    stretched = {
        name: replace(one, started_s=one.started_s * 100, ended_s=one.ended_s * 100)
        for name, one in bad_run.results.items()
    }
    assert ">hours<" in str(timeline.draw(replace(bad_run, results=stretched)))


def test_a_cable_does_not_run_over_the_name_of_a_tier(bad_run: ShownRun) -> None:
    drawn = str(fabric_map.draw(bad_run))
    assert drawn.index('class="suspected b-fail"') < drawn.index(">hosts: 4<")


def test_a_probe_that_takes_long_leaves_no_hole() -> None:
    """Half an hour of a burn-in is one probe a pair: it ran all that time, not at its end."""
    x, y = Scale(0.0, 240.0, 0.0, 240.0), Scale(0.0, 1.1, 100.0, 0.0)
    long, short = Level(0.0, 100.5, 1.0), Level(200.0, 200.5, 1.0)
    spreads = [str(part) for part in timeline._binned([long, short], x, y) if 'class="spread"' in part]
    assert len(spreads) == 102
