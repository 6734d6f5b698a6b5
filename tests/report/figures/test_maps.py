"""Maps, cables between switches, and the evidence against a part beside its peers."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fabric.report.figures import against_peers, course, evidence, hall, hosts, light, load, loopback, pairs
from fabric.report.figures.cables import loads
from fabric.report.figures.maps import pair_shares, worst
from fabric.report.figures.samples import peers, through
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.shown import Framed, framed, pair, sample

NAMES = ("gpu001", "gpu002", "gpu003", "gpu004")


def ring(count: int, low: dict[int, float]) -> Framed:
    """Neighbours of a ring at 400 Gb/s, some of them at a share of it."""
    names = [f"gpu{number:04}" for number in range(count)]
    rows = [
        pair(
            f"p/{one}",
            names[one],
            names[(one + 1) % count],
            400.0 * low.get(one, 1.0),
            outcome="fail" if one in low else "pass",
        )
        for one in range(count)
    ]
    return framed(samples=rows)


def test_a_cell_is_the_worst_of_the_whole_run() -> None:
    rows = [sample("r1", 400.0), sample("r2", 200.0, outcome="fail"), sample("r3", 396.0)]
    (one,) = worst(framed(samples=rows)).to_dict("records")
    assert (one["host"], one["kind"], one["what"], one["share"], one["outcome"]) == (
        "gpu001",
        "loopback",
        "mlx5_0",
        0.5,
        "fail",
    )


def test_a_bad_rnic_does_not_accuse_its_partners() -> None:
    rows = [pair(f"p/{a}{b}", a, b, 200.0 if "gpu001" in (a, b) else 400.0) for a, b in combinations(NAMES, 2)]
    share = worst(framed(samples=rows)).set_index("host")["share"]
    assert share["gpu001"] == pytest.approx(0.5)
    assert list(share.drop("gpu001")) == [1.0] * 3


def test_a_column_that_tells_nothing_is_left_out_unless_something_did_not_pass() -> None:
    rows = [sample("a"), sample("b", None, kind="routes", rnic=None), sample("c", None, kind="gpus", outcome="error")]
    assert set(worst(framed(samples=rows))["kind"]) == {"loopback", "gpus"}


def test_what_was_made_bad_on_purpose_is_no_cell() -> None:
    change = {"change": "p/ber.x", "kind": "ber", "part": "x", "state": "in_force", "at_s": 0.0}
    rows = [sample("a"), sample("b", 40.0, change="p/ber.x")]
    assert list(worst(framed(samples=rows, changes=[change]))["share"]) == [1.0]


def test_names_lead_to_their_measurements() -> None:
    drawn = hosts(framed(samples=[sample("a")]))
    assert drawn is not None
    assert [label.get_url() for label in drawn.axes[0].get_yticklabels()] == ["#gpu001"]


def test_of_a_hall_every_host_has_a_square_in_its_rack() -> None:
    run = framed(samples=[sample(f"p/{name}", host=name) for name in NAMES])
    drawn = hall(run, {"r1": NAMES[:2], "r2": NAMES[2:]})
    assert drawn is not None
    assert "r1" in texts(drawn)
    assert not set(NAMES) & texts(drawn)
    assert hall(framed()) is None


def test_of_a_hall_what_is_bad_has_its_name() -> None:
    rows = [sample(f"p/{name}", host=name, outcome="fail" if name == "gpu003" else "pass") for name in NAMES]
    drawn = hall(framed(samples=rows))
    assert drawn is not None
    assert {one for one in texts(drawn) if one in NAMES} == {"gpu001", "gpu003"}, (
        "the first of the block, and the bad one"
    )


def test_a_loopback_matrix_says_per_cent_of_its_peers() -> None:
    rows = [sample("a", 240.0), sample("b", endpoint="gpu0"), sample("c", host="gpu002")]
    drawn = loopback(framed(samples=rows), "gpu001")
    assert drawn is not None
    assert {"60", "100", "numa0", "gpu0", "mlx5_0"} <= texts(drawn)
    assert loopback(framed(samples=rows), "gpu002", below=0.95) is None


def test_of_many_hosts_only_those_with_a_bad_pair_are_drawn() -> None:
    """The ring of 2,048 hosts is a hair line in which four bad pairs are a quarter of a pixel each."""
    drawn = pairs(ring(2048, {7: 0.5, 900: 0.6}), "pairwise")
    assert drawn is not None
    assert {one for one in texts(drawn) if one.startswith("gpu")} == {"gpu0007", "gpu0008", "gpu0900", "gpu0901"}


def test_of_many_good_pairs_there_is_no_empty_picture() -> None:
    assert pairs(ring(2048, {}), "pairwise") is None


def test_whoever_sends_two_hosts_are_one_pair() -> None:
    """Measured both ways it was two partners, and a good way was drawn over a bad one."""
    rows = [pair("a", "gpu001", "gpu002", 200.0), pair("b", "gpu002", "gpu001"), pair("c", "gpu001", "gpu003")]
    found = pair_shares(framed(samples=rows), "pairwise")
    assert list(zip(found["low"], found["high"], found["share"], strict=True)) == [
        ("gpu001", "gpu002", 0.5),
        ("gpu001", "gpu003", 1.0),
    ]


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


@pytest.mark.parametrize("part", ["gpu001/nvlink", "gpu001/gpu5:nvlink"])
def test_nvlink_has_what_passed_through_it_and_not_the_loopbacks_of_a_gpu(part: str) -> None:
    rows = [sample("p/loopback", endpoint="gpu5"), sample("p/all", kind="all_to_all", rnic=None, endpoint=None)]
    parts = [{"probe": "p/all", "part": part}]
    assert list(through(framed(samples=rows, parts=parts), part)["probe"]) == ["p/all"]


def test_repetitions_are_one_row_the_worst() -> None:
    """Five repetitions of four paths were twelve rows that said the same."""
    rows = [sample(f"p/gpu001/x.r{number}", 300.0 - number, outcome="fail") for number in (1, 2)]
    rows.append(sample("p/gpu001/y", 310.0, outcome="fail", series="mlx5_0.numa1"))
    said = texts(against_peers(framed(samples=rows), "gpu001/mlx5_0"))
    assert {one for one in said if one.startswith("gpu001/")} == {"gpu001/x.r2", "gpu001/y"}


def test_of_a_curve_the_size_that_something_is_required_of_is_drawn() -> None:
    """The lowest of all sizes is another number than the verdict's, and no limit says anything of it."""
    rows = [sample("p/gpu001/x", gbps, outcome="fail", size_bytes=size) for gbps, size in ((200.0, 8), (250.0, 16))]
    rows[1] |= {"required_gbps": 380.0}
    said = texts(against_peers(framed(samples=rows), "gpu001/mlx5_0"))
    assert {"250 of 400 Gb/s", "required"} <= said
    assert "200 of 400 Gb/s" not in said
    assert "required" not in texts(against_peers(framed(samples=rows[:1]), "gpu001/mlx5_0"))


@pytest.mark.slow
def test_a_real_run_has_evidence_of_its_suspect(bad_run: ShownRun) -> None:
    drawn = evidence(bad_run.frames, "gpu002/mlx5_3")
    assert drawn is not None
    assert "% of normal" in texts(drawn)


def end(part: str, node: str, port: str, peer: str, **others: Any) -> dict[str, Any]:
    """One end of a cable."""
    return {"part": part, "node": node, "port": port, "peer_node": peer, **others}


def cable(leaf: str, spine: str, up_gbps: float | None, down_gbps: float | None, number: int) -> list[dict[str, Any]]:
    """Both ends of a cable from a leaf to a spine."""
    part = f"{leaf}--{spine}"
    return [
        end(part, leaf, str(number), spine, sent_gbps=up_gbps),
        end(part, spine, "1", leaf, sent_gbps=down_gbps),
    ]


LINKS = [
    end("gpu001/mlx5_0:port", "gpu001", "mlx5_0", "leaf1", sent_gbps=30.0),
    end("gpu001/mlx5_0:port", "leaf1", "1", "gpu001", sent_gbps=20.0),
    *cable("leaf1", "spine1", 10.0, 40.0, 17),
    *cable("leaf1", "spine2", 25.0, 5.0, 18),
    *cable("spine1", "core1", 99.0, 99.0, 30),
]
CHANGE = {"change": "c", "phase": "p", "kind": "ber", "part": "leaf1--spine2", "state": "in_force", "at_s": 1.0}


def test_the_load_of_a_cable_is_that_of_its_busier_direction_and_only_leaves_have_a_row() -> None:
    found = loads(framed(links=LINKS, changes=[CHANGE])).set_index("part")
    assert list(found.index) == ["leaf1--spine1", "leaf1--spine2"]
    assert list(found["gbps"]) == [40.0, 25.0]
    assert list(found["changed"]) == [False, True]


def test_the_most_loaded_cable_of_each_leaf_has_its_name_and_changed_ones_are_said() -> None:
    drawn = load(framed(links=LINKS, changes=[CHANGE]))
    assert drawn is not None
    assert {"to spine1", "leaf1", "changed on purpose"} <= texts(drawn)
    plain = load(framed(links=LINKS))
    assert plain is not None
    assert "changed on purpose" not in texts(plain)


def test_without_numbers_there_is_no_picture() -> None:
    assert load(framed()) is None
    assert load(framed(links=cable("leaf1", "spine1", None, None, 1))) is None
    assert light(framed(links=LINKS), "leaf1--spine1") is None


@pytest.mark.parametrize("lane", range(4))
def test_each_lane_stands_with_its_number_between_the_limits(lane: int) -> None:
    dbm = {f"rx{number}_dbm": -9.5 if number == lane else 1.5 for number in range(4)}
    row = end("leaf1--spine1", "leaf1", "17", "spine1", rx_low_dbm=-10.4, rx_high_dbm=6.0, **dbm)
    drawn = light(framed(links=[row]), "leaf1--spine1")
    assert drawn is not None
    assert {"leaf1 17", "0", "1", "2", "3"} <= texts(drawn)
    low = [line for line in drawn.axes[0].lines if np.asarray(line.get_ydata(), float).tolist() == [-9.5]]
    assert len(low) == 1
