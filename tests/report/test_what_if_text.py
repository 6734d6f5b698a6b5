"""The answer of a what-if as text and as a document."""

from __future__ import annotations

import orjson

from fabric.config.what_if import load_what_if
from fabric.report.what_if import what_if_document, what_if_text
from fabric.sim.what_if import WhatIf, what_if
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"


def answer(*faults: str, pattern: str = "pairs", routing: str = "ftree,ar") -> WhatIf:
    """Two engines on the pod, hosts in order, one seed."""
    return what_if(load_what_if(pattern, POD, routing=routing, order="sorted", hosts=None, faults=faults, seeds=1))


def test_a_healthy_answer_word_by_word() -> None:
    """What was asked, shares, the busiest links, the model; no column for faults."""
    lines = [line.rstrip() for line in what_if_text(answer()).splitlines()]
    assert lines[:7] == [
        "simulated: pairs on pod-64, 64 hosts (gpu[001-064]), sorted order, 1 seed",
        "  2 levels, 32 leaves of 16 RNICs (400 Gb/s) and 16 uplinks (400 Gb/s), infiniband; "
        "RNICs that take part: 16 a leaf",
        "",
        "simulated share of line rate, per job (32 jobs over all seeds)",
        "routing     mean    median       p5      min      CV",
        "ftree      1.000     1.000    1.000    1.000    0.00",
        "ar         0.950     0.950    0.950    0.950    0.00",
    ]
    assert "  ftree       su0-leaf0->spine00                400 / 400 Gb/s = 1.00" in lines
    assert "  ar          su0-leaf0->spines                 6,400 / 6,080 Gb/s = 1.05" in lines
    assert "  ar: reaches 0.95 of a trunk; a switch on infiniband knows how full the far side is" in lines


def test_faults_show_what_they_do() -> None:
    """The links by name, a bit error rate as capacity and loss, and what each engine kept of its healthy mean."""
    text = what_if_text(answer("su0-leaf3--spine02:slow=0.25", "gpu003/mlx5_2:ber=1.5e-3"))
    assert "  fault su0-leaf3--spine02:slow=0.25\n    su0-leaf3--spine02\n" in text
    assert "  fault gpu003/mlx5_2:ber=1.5e-3 -> 82." in text
    assert "% of the capacity, packet loss 0\n    gpu003/mlx5_2--su0-leaf2\n" in text
    assert "healthy mean    kept" in text


def test_one_direction_is_written_as_one() -> None:
    """A fault of one direction names an arrow; many links are counted, not listed."""
    assert "    su0-leaf3->spine02\n" in what_if_text(answer("su0-leaf3->spine02:slow=0.25"))
    assert " and 8 more\n" in what_if_text(answer("trunk*16:slow=0.25"))


def test_what_gets_nothing_is_counted() -> None:
    """A dead access link stalls its job: the column appears, and the link carries nothing."""
    text = what_if_text(answer("gpu003/mlx5_2:down"))
    assert "got nothing" in text
    assert "400 / 0 Gb/s: carries nothing" in text
    assert "after the routes around them are in place" in text


def test_the_document_is_plain_json() -> None:
    """It can be written, says simulated, and holds what the text says."""
    document = orjson.loads(orjson.dumps(what_if_document(answer("gpu003/mlx5_2:down"))))
    assert document["simulated"] is True
    assert document["per"] == "job"
    assert document["faults"] == [
        {
            "fault": "gpu003/mlx5_2:down",
            "kind": "down",
            "value": None,
            "links": ["gpu003/mlx5_2->su0-leaf2", "su0-leaf2->gpu003/mlx5_2"],
            "capacity_factor": None,
            "loss": None,
        }
    ]
    ftree = document["engines"][0]
    assert ftree["share_of_line_rate"]["stalled"] == 1
    assert ftree["busiest"][0]["ratio"] is None
    assert set(ftree["share_of_line_rate"]) == {"count", "mean", "median", "p5", "min", "cv", "stalled"}


def test_flows_are_called_flows() -> None:
    """Permutations are judged flow by flow, and no job is spoken of."""
    text = what_if_text(answer(pattern="permutation"))
    assert "per flow (512 flows over all seeds)" in text
    assert "job" not in text
