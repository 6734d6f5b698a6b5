"""What a good pair reaches, however many are bad."""

import numpy as np

from fabric.judge.locate.pairs.reference import reference


def pairs(count, seed=0, cv=0.01):
    a, b = np.triu_indices(count, 1)
    return a, b, 400 * (1 + cv * np.random.default_rng(seed).normal(size=len(a)))


def test_it_is_the_level_of_good_pairs_and_their_noise():
    found = reference(*pairs(64))
    assert abs(found.gbps - 400) < 1
    assert abs(found.noise - 0.01) < 0.001


def test_half_of_the_hosts_slow_do_not_move_it():
    a, b, gbps = pairs(64)
    slow = (a < 30) | (b < 30)
    found = reference(a, b, np.where(slow, 0.85 * gbps, gbps))
    assert abs(found.gbps - 400) < 2
    assert found.noise < 0.013


def test_a_few_lucky_pairs_do_not_move_it():
    a, b, gbps = pairs(16)
    gbps[:3] *= 1.5
    assert abs(reference(a, b, gbps).gbps - 400) < 3
