"""Several ways that are slow together: one thing that they share, of which there are several, not one fault each."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.judge.locate.candidates import Component
from fabric.judge.locate.cells import Cells, SampleMatrix
from fabric.judge.locate.matrix import entries_of
from fabric.judge.locate.search import Search
from fabric.judge.locate.structure import Normal

HOSTS, EACH = 20, 6


def blamed(kept: dict[int, float], *, known: frozenset[str] = frozenset()) -> list[str]:
    """The faulty parts where the cable of each host passes the share *kept* of what is normal, else all."""
    random = np.random.default_rng(3)
    parts, y = [], []
    for host in range(HOSTS):
        port, above = f"gpu{host}/mlx5_0:port", f"gpu{host}/mlx5_0:above"
        passed = [Component(port, "link", ""), Component(above, "uplinks", "")]
        passed.append(Component("leaf0:uplinks", "uplinks", "", above))
        parts += [passed] * EACH
        y += [np.log(kept.get(host, 1.0)) + 0.005 * random.normal() for _ in range(EACH)]
    one, of_class = np.ones(1), np.zeros(len(y), dtype=np.int64)
    columns, entries = entries_of(parts, np.array(y) < -0.03, known=known)
    matrix = SampleMatrix(
        Cells(entries, of_class),
        y=np.array(y),
        of_class=of_class,
        at_s=np.zeros(len(y)),
        normal=Normal.of_noise(0.005 * one, of_class),
        floor=0.03 * one,
        least=0.02 * one,
        apart=0.02 * one,
        level=0 * one,
    )
    return sorted(columns[fault.part].name for fault in Search(matrix).faults())


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({}, []),
        ({3: 0.5}, ["gpu3/mlx5_0:port"]),
        ({3: 0.5, 8: 0.5}, ["leaf0:uplinks"]),
        ({1: 0.5, 3: 0.5, 8: 0.5}, ["leaf0:uplinks"]),
        ({3: 0.5, 8: 0.8}, ["gpu3/mlx5_0:port", "gpu8/mlx5_0:port"]),
    ],
    ids=["nothing", "one way", "two ways alike", "three ways alike", "two ways that differ"],
)
def test_ways_that_lose_alike_share_one_cable(kept: dict[int, float], expected: list[str]) -> None:
    """One cable of the bundle explains them in fewer words than a bad port of each."""
    assert blamed(kept) == expected


def test_one_way_over_a_cable_that_is_bad_by_other_evidence_is_no_second_fault() -> None:
    """Pairs of hosts named it: a new fault would take more words."""
    assert blamed({3: 0.5}, known=frozenset({"leaf0:uplinks"})) == ["leaf0:uplinks"]
