"""The evidence against a part: its course over hours, or its worst numbers, beside its peers."""

from __future__ import annotations

from fabric.report.figures import against_peers, course, evidence
from fabric.report.figures.samples import peers, through
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.framed import Framed, framed, pair, sample


def hours_of(rounds: int) -> Framed:
    """Two hosts with a loopback each half hour; gpu001 fades to 300 of 400 Gb/s, and its module is warm."""
    rows = []
    for number in range(rounds):
        at = {"phase": f"soak-r{number}", "began_s": 1800.0 * number, "ended_s": 1800.0 * number + 10}
        rows.append(sample(f"soak-r{number}/a", 400.0 - 100 * number / (rounds - 1), outcome="fail", **at))
        rows.append(sample(f"soak-r{number}/b", 400.0, host="gpu002", hosts="gpu002", **at))
    warm = [
        {"at_s": 60.0 * n, "host": "gpu001", "part": "gpu001/mlx5_0", "name": "module_c", "value": 40.0 + n}
        for n in range(9)
    ]
    return framed(samples=rows, counters=warm, suspects=[{"part": "gpu001/mlx5_0"}])


def test_over_hours_it_is_a_course_with_the_worst_number_said_and_the_temperature_below() -> None:
    drawn = evidence(hours_of(12), "gpu001/mlx5_0")
    assert drawn is not None
    said = texts(drawn)
    assert "worst: 300 of 400 Gb/s" in said
    assert "hours since the run began" in said
    assert "temperature: module_c of gpu001/mlx5_0" in said


def test_of_few_moments_its_worst_numbers_stand_side_by_side() -> None:
    drawn = evidence(hours_of(3), "gpu001/mlx5_0")
    assert drawn is not None
    assert "300 of 400 Gb/s" in texts(drawn)
    assert "hours since the run began" not in texts(drawn)


def test_the_axis_stands_where_the_numbers_are() -> None:
    low, high = against_peers(hours_of(3), "gpu001/mlx5_0").axes[0].get_xlim()
    assert 65 < low < 75
    assert 100 < high < 105
    low, high = course(hours_of(12), "gpu001/mlx5_0").axes[0].get_ylim()
    assert 60 < low < 75


def test_without_a_number_there_is_no_picture() -> None:
    assert evidence(framed(samples=[sample("p/a", None, outcome="error")]), "gpu001/mlx5_0") is None


def test_what_another_suspect_made_slow_is_no_peer() -> None:
    """Else the band of what is normal reaches down to the numbers of a bad leaf."""
    rows = [sample(f"p/{name}", host=name, hosts=name) for name in ("gpu001", "gpu002", "gpu003")]
    run = framed(samples=rows, suspects=[{"part": "gpu001/mlx5_0"}, {"part": "gpu002/mlx5_0"}])
    own = through(run, "gpu001/mlx5_0")
    assert list(peers(run, own)["host"]) == ["gpu003"]


def test_what_was_measured_under_a_fault_made_on_purpose_is_no_peer() -> None:
    rows = [sample("p/a"), sample("p/b", host="gpu002"), sample("p/c", host="gpu003", change="p/ber.x")]
    changes = [{"change": "p/ber.x", "kind": "ber", "part": "x", "state": "in_force", "at_s": 0.0}]
    run = framed(samples=rows, changes=changes, suspects=[{"part": "gpu001/mlx5_0"}])
    assert list(peers(run, through(run, "gpu001/mlx5_0"))["host"]) == ["gpu002"]


def test_an_rnic_has_what_it_sent_and_what_it_received() -> None:
    rows = [pair("p/a", "gpu001", "gpu002"), pair("p/b", "gpu003", "gpu001"), pair("p/c", "gpu002", "gpu003")]
    assert list(through(framed(samples=rows), "gpu001/mlx5_0")["probe"]) == ["p/a", "p/b"]


def test_a_path_has_the_probes_to_its_end() -> None:
    rows = [sample("p/a"), sample("p/b", endpoint="numa1"), sample("p/c", rnic="mlx5_1")]
    assert list(through(framed(samples=rows), "gpu001/mlx5_0->numa1")["probe"]) == ["p/b"]


def test_a_cable_between_switches_has_what_passed_through_it() -> None:
    rows = [pair("p/a", "gpu001", "gpu002"), pair("p/b", "gpu003", "gpu001")]
    parts = [{"probe": "p/b", "part": "leaf0--spine1"}]
    assert list(through(framed(samples=rows, parts=parts), "leaf0--spine1")["probe"]) == ["p/b"]


def test_repetitions_are_one_row_the_worst() -> None:
    """Five repetitions of four paths were twelve rows that said the same."""
    rows = [sample(f"p/gpu001/x.r{number}", 300.0 - number, outcome="fail") for number in (1, 2)]
    rows.append(sample("p/gpu001/y", 310.0, outcome="fail", series="mlx5_0.numa1"))
    said = texts(against_peers(framed(samples=rows), "gpu001/mlx5_0"))
    assert {one for one in said if one.startswith("gpu001/")} == {"gpu001/x.r2", "gpu001/y"}


def test_a_real_run_has_evidence_of_its_suspect(bad_run: ShownRun) -> None:
    drawn = evidence(bad_run.frames, "gpu002/mlx5_3")
    assert drawn is not None
    assert "% of normal" in texts(drawn)
