"""What calling one more component bad is worth, in nats."""

from __future__ import annotations

import numpy as np

from fabric.judge.locate.pairs.samples import PairEvidence

LEAF, HOST = 0, 1
NOISE = 0.002


def under_a_slow_leaf(host_loss: float) -> tuple[PairEvidence, float]:
    """Sixty samples through a leaf that lost 3 %, twenty of them of one host, exactly as slow; gain of the host."""
    paths = np.array([[LEAF, HOST if number < 20 else -1] for number in range(60)], dtype=np.int64)
    ratio = np.where(paths[:, 1] == HOST, 1 - host_loss, 0.97)
    evidence = PairEvidence(ratio, NOISE, paths, 2, least_loss=0.02)
    gains, _ = evidence.gains(evidence.explained({LEAF: 0.03}))
    return evidence, float(gains[HOST])


def test_the_lowest_host_under_a_slow_leaf_is_not_bad_too() -> None:
    """It is a percent lower than the others, which healthy hosts may be."""
    evidence, gain = under_a_slow_leaf(0.04)
    assert gain == 0.0
    assert evidence.gain_of(HOST, np.zeros(60))[0] > 10


def test_a_host_much_worse_than_its_slow_leaf_is_bad_too() -> None:
    _, gain = under_a_slow_leaf(0.08)
    assert gain > 10
