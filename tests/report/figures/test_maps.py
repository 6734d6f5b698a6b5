"""Maps: what a cell says, and what is left out of many."""

from __future__ import annotations

from itertools import combinations

import pytest

from fabric.report.figures import hall, hosts, loopback, pairs
from fabric.report.figures.maps import pair_shares, worst
from tests.report.figures.seen import texts
from tests.report.framed import Framed, framed, pair, sample

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
