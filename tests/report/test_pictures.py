"""What the pictures of a page leave out, and what they must show."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.report.html import fabric_map, heat, pairs, timeline
from fabric.report.html.page import page
from fabric.report.html.shares import medians
from fabric.report.html.svg import Scale
from fabric.report.html.timeline import RoundLevel, levels
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
    places = fabric_map.spread_tier("hosts", 0.0, [f"gpu{number:04}" for number in range(2048)]).places.values()
    assert min(x for x, _ in places) >= fabric_map.MARGIN > 0
    assert max(x for x, _ in places) <= fabric_map.WIDTH - fabric_map.MARGIN


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
    long, short = RoundLevel(0.0, 100.5, 1.0), RoundLevel(200.0, 200.5, 1.0)
    spreads = [str(part) for part in timeline.binned([long, short], x, y) if 'class="spread"' in part]
    assert len(spreads) == 102


def matrix_of(hosts: int, low: dict[tuple[int, int], float]) -> pairs.DrawnMatrix:
    """A ring of neighbours at the median, some of them low."""
    names = [f"gpu{number:04}" for number in range(hosts)]
    shares = {
        (names[one], names[(one + 1) % hosts]): (
            low.get((one, one + 1), 1.0),
            Outcome.FAIL if (one, one + 1) in low else Outcome.PASS,
        )
        for one in range(hosts)
    }
    return pairs.DrawnMatrix("pairwise in pairs", tuple(names), shares, ())


def test_of_many_hosts_only_those_with_a_bad_pair_are_drawn() -> None:
    """The ring of 2,048 hosts is a hair line in which four bad pairs are a quarter of a pixel each."""
    found = pairs.in_sight(matrix_of(2048, {(7, 8): 0.5, (900, 901): 0.6}))
    assert found.hosts == ("gpu0007", "gpu0008", "gpu0900", "gpu0901")
    assert found.patterns == ("not drawn: 2,046 pairs of the other hosts passed, at 100% to 100% of the median",)
    assert str(pairs.draw(found)).count('class="mark m-fail"') == 4


def test_of_many_good_pairs_there_are_words_and_no_empty_picture() -> None:
    found = pairs.in_sight(matrix_of(2048, {}))
    assert pairs.draw(found) is None
    assert "2,048 pairs" in found.patterns[0]


def test_of_few_hosts_all_pairs_are_drawn() -> None:
    whole = matrix_of(64, {(7, 8): 0.5})
    assert pairs.in_sight(whole) is whole


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


def test_what_was_not_measured_is_seen_among_many_probes() -> None:
    x, y = Scale(0.0, 240.0, 0.0, 240.0), Scale(0.0, 1.1, 100.0, 0.0)
    good, lost = RoundLevel(10.0, 10.5, 1.0), RoundLevel(200.0, 200.5, None)
    assert sum('class="lost"' in part for part in timeline.binned([good, lost, lost], x, y)) == 1


def test_the_caption_of_the_time_line_says_no_sign_that_is_not_there(bad_run: ShownRun) -> None:
    """The bad rack was measured as a whole and nothing was changed."""
    said = timeline.caption(bad_run)
    assert not any(word in said for word in ("Band:", "Flags:", "Cross:"))
    assert "Cross:" in timeline.caption(bad_run, [RoundLevel(0.0, 1.0, None)])


def test_the_axis_of_message_sizes_has_a_unit(bad_run: ShownRun) -> None:
    assert "message size, bytes" in page(bad_run)


def test_the_colours_of_pairs_have_a_legend_of_their_own(bad_run: ShownRun) -> None:
    """Of a run without probes of one host there is no other on the page."""
    section = page(bad_run).partition('<section id="pairs">')[2].partition("</section>")[0]
    assert "98 % and more" in section


def test_the_detail_of_a_reason_is_set_below_it(bad_run: ShownRun) -> None:
    verdict = replace(bad_run.judged.verdict, reasons=("SKIPPED: 4 of 10", "  gpu003: did not pass"))
    shown = page(replace(bad_run, judged=replace(bad_run.judged, verdict=verdict)))
    assert "<li>SKIPPED: 4 of 10</li>" in shown
    assert '<li class="under">  gpu003: did not pass</li>' in shown


def test_the_leaf_of_a_suspected_rnic_has_its_name(bad_run: ShownRun) -> None:
    leaf = bad_run.inventory.topology.hosts["gpu002"].leaves[3]
    assert f">{leaf}</text>" in str(fabric_map.draw(bad_run))


def test_flows_within_a_host_are_measured_by_all_flows(bad_run: ShownRun) -> None:
    """A flow is asked for half its rate: over that it would be at 2, and all else a flat line below."""
    row = next(row for row in bad_run.rows if row.verdict.outcome is Outcome.PASS and row.result is not None)
    hosts = [("gpu001",), ("gpu001", "gpu002"), ("gpu003", "gpu004"), ("gpu002", "gpu003")]
    probes = [
        replace(row.probe, probe_id=f"burn/{number}", kind="link_burn", hosts=names, params={"series": str(number)})
        for number, names in enumerate(hosts)
    ]
    verdicts = tuple(replace(row.verdict, probe_id=probe.probe_id, limit_gbps=1.0) for probe in probes)
    judged = replace(bad_run.judged, verdict=replace(bad_run.judged.verdict, probes=verdicts))
    results = {probe.probe_id: row.result for probe in probes if row.result is not None}
    found = levels(ShownRun(judged, bad_run.inventory, probes, results, bad_run.document))
    assert [level.share for level in found] == [1.0] * 4
