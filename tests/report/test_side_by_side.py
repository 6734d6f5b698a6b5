"""Several runs side by side: what is mended, what is new, and what cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.report.page import compared_page
from fabric.report.shown_run import ShownRun
from fabric.report.side_by_side import lines, side_by_side
from tests.report.shown import run_of


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """The same four hosts, nothing planted."""
    return reopened(run_of(tmp_path_factory.mktemp("good")))


@pytest.fixture(scope="module")
def other_hosts(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """Two hosts that the bad rack's suspect is not one of."""
    return reopened(run_of(tmp_path_factory.mktemp("other"), hosts="gpu[005-006]"))


def words(*runs: ShownRun) -> dict[str, str]:
    """What is said of each component."""
    return {row.component: row.word for row in side_by_side(runs).suspects}


def test_a_suspect_that_is_gone_is_mended(bad_run: ShownRun, good_run: ShownRun) -> None:
    assert words(bad_run, good_run) == {"gpu002/mlx5_3": "mended"}


def test_a_suspect_that_came_is_new(bad_run: ShownRun, good_run: ShownRun) -> None:
    assert words(good_run, bad_run) == {"gpu002/mlx5_3": "new"}


def test_a_suspect_in_all_is_still_one(bad_run: ShownRun) -> None:
    assert words(bad_run, bad_run) == {"gpu002/mlx5_3": "still"}


def test_one_in_the_middle_comes_and_goes(bad_run: ShownRun, good_run: ShownRun) -> None:
    assert words(good_run, bad_run, good_run) == {"gpu002/mlx5_3": "now and then"}


def test_a_host_that_was_not_tried_again_is_not_called_mended(bad_run: ShownRun, other_hosts: ShownRun) -> None:
    found = side_by_side([bad_run, other_hosts])
    assert [row.word for row in found.suspects] == ["not tried again"]
    assert any("other hosts: 0 of 2" in note for note in found.notes)


def loopbacks_of(run: ShownRun) -> ShownRun:
    """The same run if it had measured loopbacks alone and suspected nothing."""
    probes = tuple(probe for probe in run.probes if probe.kind == "loopback")
    kept = {probe.probe_id for probe in probes}
    verdicts = tuple(one for one in run.judged.verdict.probes if one.probe_id in kept)
    verdict = replace(run.judged.verdict, probes=verdicts, suspects=())
    return ShownRun(replace(run.judged, verdict=verdict), run.inventory, probes, run.results, run.document)


def test_a_suspect_whose_measurement_was_not_made_again_is_not_called_mended(tmp_path: Path) -> None:
    bad = reopened(run_of(tmp_path, faults=("gpu002/gpu5:nvlink:slow=0.6",)))
    assert words(bad, bad) == {"gpu002/gpu5:nvlink": "still"}
    assert words(bad, loopbacks_of(bad)) == {"gpu002/gpu5:nvlink": "not tried again"}
    assert words(loopbacks_of(bad), bad) == {"gpu002/gpu5:nvlink": "not tried before"}


def test_a_part_that_was_measured_with_other_probes_missing_is_mended(bad_run: ShownRun, good_run: ShownRun) -> None:
    assert words(bad_run, loopbacks_of(good_run)) == {"gpu002/mlx5_3": "mended"}


def test_bandwidth_that_moved_is_pointed_out(bad_run: ShownRun, changed_run: ShownRun) -> None:
    found = side_by_side([bad_run, changed_run])
    by_kind = {(row.configuration, row.kind): row.medians for row in found.bandwidths}
    assert by_kind["intra-host", "loopback"][1] is None
    assert by_kind["degraded, adaptive_routing=off", "group_all_reduce"][0] is None
    assert any("another scenario" in note for note in found.notes)


def test_lines_name_runs_outcomes_and_components(bad_run: ShownRun, good_run: ShownRun) -> None:
    text = "\n".join(lines(side_by_side([bad_run, good_run])))
    for part in (bad_run.judged.run_id, "FAIL", "PASS", "gpu002/mlx5_3", "mended"):
        assert part in text


def test_what_differs_is_one_box_and_not_a_wall(bad_run: ShownRun, other_hosts: ShownRun) -> None:
    """Suspects must be in sight: seven boxes of notes are a screen."""
    judged = replace(bad_run.judged, judged_by=("elsewhere",), scenario=replace(bad_run.judged.scenario, name="other"))
    text = compared_page(side_by_side([bad_run, other_hosts, replace(bad_run, judged=judged)]))
    assert text.count('class="warn"') == 1
    assert text.count("<li>") >= 3
    assert "has other limits: elsewhere" in text
