"""Pairs whose noise is a quarter of what they reach, as four machines that share two processors measured them."""

from __future__ import annotations

import pytest

from benchmarks.pair_fabric import PairState
from fabric.judge.locate.pairs.findings import suspects_of
from fabric.judge.locate.pairs.fitted import fit
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect

CLEAN = (
    "h1>h2=0.04855 h3>h4=0.03773 h4>h1=0.07253 h3>h2=0.08245 h1>h3=0.07203 h2>h4=0.07575 h2>h3=0.06653 h4>h1=0.06984 "
    "h2>h3=0.06867 h4>h1=0.05862 h2>h3=0.05287 h4>h1=0.04818"
)
H1_LOSES_15 = (
    "h1>h2=0.000524 h3>h4=0.0378 h4>h1=0.03912 h3>h2=0.05574 h1>h3=0.000874 h2>h4=0.05343 h2>h3=0.07006 h4>h1=0.04718 "
    "h2>h4=0.06042 h1>h3=0.000524 h1>h3=0.000699 h4>h2=0.07175"
)
H3_LOSES_2 = (
    "h1>h2=0.04693 h3>h4=0.008387 h4>h1=0.05153 h3>h2=0.007671 h1>h3=0.03966 h2>h4=0.05797 h3>h2=0.01197 h4>h1=0.08407 "
    "h1>h3=0.07474 h2>h4=0.06197 h2>h4=0.06076 h3>h1=0.01045"
)
"""ib_write_bw, 64 KiB, one queue pair over soft RoCE (tests/lab/test_soft_roce.py), Gb/s; the loss is in per cent."""


def named(pairs: str) -> list[Suspect]:
    """The suspects after these pairs; h1 and h2 are under one leaf, h3 and h4 under the other."""
    tests = [text.partition("=") for text in pairs.split()]
    results = tuple((PairTest(*pair.split(">")), float(gbps)) for pair, _, gbps in tests)
    leaves = {"l1": ("h1", "h2"), "l2": ("h3", "h4")}
    return suspects_of(fit(PairState(leaves, rounds=6, results=results, directed=True).samples()))


@pytest.mark.parametrize(
    ("pairs", "sender"), [(H1_LOSES_15, "h1:tx"), (H3_LOSES_2, "h3:tx")], ids=["15 % of h1", "2 % of h3"]
)
def test_a_sender_that_loses_packets_is_named_and_nobody_else(pairs: str, sender: str) -> None:
    """All of its samples are far below what any other is: noise is not dips of nearly all."""
    assert [(one.component, one.outcome) for one in named(pairs)] == [(sender, Outcome.FAIL)]


def test_nobody_is_bad_where_all_is_noise() -> None:
    assert named(CLEAN) == []
