"""A low uplink is one cause, not a finding for each pair that crosses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.html import pairs, timeline
from fabric.report.html.timeline import TargetedRounds, levels
from fabric.report.shown_run import ShownRun
from tests.report.shown import run_of


@pytest.fixture(scope="module")
def uplink_run(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """32 hosts, one uplink of a leaf slow."""
    results = tmp_path_factory.mktemp("uplink")
    faults = ("su1-leaf6--spine03:slow=0.6",)
    return reopened(run_of(results, scenario="localise", hosts="gpu[001-032]", faults=faults))


@pytest.fixture(scope="module")
def leaf_run(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """64 hosts, one leaf slow: more bad probes than a suspect names."""
    results = tmp_path_factory.mktemp("leaf")
    return reopened(run_of(results, scenario="localise", hosts=None, faults=("su1-leaf6:slow=0.6",)))


def test_low_pairs_over_a_suspected_uplink_are_one_pattern_and_ringed(uplink_run: ShownRun) -> None:
    (matrix,) = pairs.pair_matrices(uplink_run)
    low = [pair for pair, (share, _) in matrix.shares.items() if share is not None and share < pairs.LOW]
    assert len(low) > 2
    (said,) = matrix.patterns  # with two leaves to a rail both uplinks of the spine are crossed by the same pairs
    assert said.startswith(f"ringed: {len(low)} low pairs have one cause, suspect 1, su")
    assert said.endswith("-leaf6--spine03")
    assert str(pairs.draw(matrix)).count('class="ring"') == 2 * len(low)


@pytest.mark.slow
def test_a_leaf_explains_more_pairs_than_it_names_probes(leaf_run: ShownRun) -> None:
    (matrix,) = pairs.pair_matrices(leaf_run)
    (one,) = matrix.explained
    assert one.component == "su1-leaf6"
    assert len(one.pairs) > 20
    assert len(matrix.patterns) == 1


def test_without_a_suspect_a_low_pair_is_a_cell_and_a_low_host_a_row() -> None:
    shares = {
        ("a", "b"): (0.6, Outcome.FAIL),
        ("a", "c"): (0.6, Outcome.FAIL),
        ("c", "d"): (0.6, Outcome.FAIL),
        ("b", "c"): (1.0, Outcome.PASS),
        ("d", "b"): (1.0, Outcome.PASS),
    }
    low = {pair for pair, (share, _) in shares.items() if share < pairs.LOW}
    said = pairs.patterns(shares, low, ())
    assert said == ("row: a is low with each of its 2 partners", "cell: c with d is low")


def test_a_suspect_with_a_host_of_its_own_is_no_part_of_the_network(uplink_run: ShownRun) -> None:
    rows = [row for row in uplink_run.rows if row.verdict.outcome is Outcome.FAIL]
    low = {(row.probe.hosts[0], row.probe.hosts[1]): [row] for row in rows}
    ids = tuple(row.probe.probe_id for row in rows)
    own = Suspect("gpu018/mlx5_6", "rnic", Outcome.FAIL, 0.9, (), hosts=("gpu018",), probes=ids)
    assert pairs.explained(low, (own,), uplink_run.inventory.topology) == ()


def test_targeted_rounds_are_not_in_the_median_line(uplink_run: ShownRun) -> None:
    """Else it falls at the end of the run, where only what is slow is measured."""
    targeted = TargetedRounds(uplink_run)
    followed = [row for row in uplink_run.rows if targeted.has(row.probe)]
    assert followed
    assert all(int(str(row.probe.params["round"])) >= 3 for row in followed)
    tests = [row for row in uplink_run.rows if row.probe.kind == "pairwise"]
    assert len(tests) - len(followed) == 384
    found = levels(uplink_run)
    assert sum(level.line < 0 for level in found) == len(followed)
    assert f"leaves out {len(followed)} of targeted rounds" in timeline.caption(uplink_run)


def test_each_phase_has_a_median_line_of_its_own(uplink_run: ShownRun, tmp_path: Path) -> None:
    assert str(timeline.draw(uplink_run)).count('class="series c0"') == len(uplink_run.judged.scenario.phases)


def test_whoever_sends_two_hosts_are_one_pair_and_one_partner(bad_run: ShownRun) -> None:
    """Measured both ways it was two partners, and a good way was drawn over a bad one."""
    row = next(row for row in bad_run.rows if len(row.probe.hosts) == 2)
    ways = [
        ("gpu002", "gpu001"),
        ("gpu001", "gpu002"),
        ("gpu003", "gpu002"),
        ("gpu002", "gpu003"),
        ("gpu001", "gpu003"),
    ]
    probes = [replace(row.probe, probe_id=f"tor/{number}", hosts=hosts) for number, hosts in enumerate(ways)]
    speeds = [240.0 if "gpu002" in hosts else 400.0 for hosts in ways]
    good = replace(row.probe, probe_id="tor/good", hosts=("gpu003", "gpu004"))
    probes += [replace(good, probe_id=f"tor/good{number}") for number in range(6)]
    verdicts = [
        replace(row.verdict, probe_id=probe.probe_id, value_gbps=value)
        for probe, value in zip(probes, [*speeds, *[400.0] * 6], strict=True)
    ]
    verdict = replace(bad_run.judged.verdict, probes=tuple(verdicts), suspects=())
    judged = replace(bad_run.judged, verdict=verdict)
    (matrix,) = pairs.pair_matrices(ShownRun(judged, bad_run.inventory, probes, {}, bad_run.document))
    assert matrix.patterns == ("row: gpu002 is low with each of its 2 partners",)
    assert ("gpu001", "gpu002") in matrix.shares
    assert ("gpu002", "gpu001") not in matrix.shares


def test_routes_that_were_read_are_no_lost_measurement(uplink_run: ShownRun) -> None:
    """They have no number by their nature, and all of them went well."""
    assert any(row.result and row.result.outcome is Outcome.PASS for row in uplink_run.rows)
    assert all(level.share is not None for level in levels(uplink_run))
    assert "Cross:" not in timeline.caption(uplink_run)
