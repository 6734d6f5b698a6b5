"""A rail most of which is held down by one leaf, told by the other rails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fabric.judge.locate.pairs.fitted import Fitted, fit, fit_together
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN
from tests.judge.locate.pairs.test_in_run import World, ran
from tests.probes.test_pairwise import pod

FLOOR = 0.03
Loss = Callable[[int, int], float]


def rail(loss: Loss, *, seed: int) -> Fitted:
    """Two leaves of eight, everybody with everybody; *loss* of a pair by the leaves of both."""
    random = np.random.default_rng(seed)
    leaf = np.repeat(np.arange(2), 8)
    a, b = np.triu_indices(16, 1)
    lost = np.array([loss(*each) for each in zip(leaf[a], leaf[b], strict=True)])
    hosts = tuple(f"h{number}" for number in range(16))
    gbps = 392 * (1 - lost) * (1 + 0.005 * random.normal(size=len(a)))
    via = np.full(len(a), UNKNOWN)
    leaves = (f"r{seed}-leaf0", f"r{seed}-leaf1")
    return fit(PairSamples(hosts, a, b, gbps, leaves, leaf, (), via, rail=f"mlx5_{seed}"), floor=FLOOR)


def good(a: int, b: int) -> float:
    return 0.0


def over_leaf0(a: int, b: int) -> float:
    return 0.03 if 0 in (a, b) else 0.0


def named(planes: list[Fitted]) -> list[list[str]]:
    return [[one.components.names[blamed.component] for blamed in one.blamed] for one in planes]


def together(planes: list[Fitted]) -> list[Fitted]:
    return fit_together([one.samples for one in planes], floor=FLOOR)


def test_one_of_two_leaves_that_is_a_little_slow_is_named() -> None:
    """Three pairs in four cross it: only the other rails show that those are the slow ones."""
    planes = [rail(over_leaf0, seed=0), *(rail(good, seed=seed) for seed in range(1, 3))]
    assert named(planes)[0] == []
    assert named(together(planes)) == [["r0-leaf0"], [], []]


def test_a_rail_without_any_pair_that_reaches_the_usual_level_names_nobody() -> None:
    """It may be slower by design."""
    planes = [rail(lambda a, b: 0.03, seed=0), *(rail(good, seed=seed) for seed in range(1, 3))]
    assert named(together(planes)) == [[], [], []]


def test_healthy_rails_name_nobody_and_keep_their_level() -> None:
    planes = [rail(good, seed=seed) for seed in range(4)]
    found = together(planes)
    assert named(found) == [[]] * 4
    assert [one.classes[0].gbps for one in found] == pytest.approx([392] * 4, rel=0.002)


@pytest.mark.slow
def test_in_a_run_such_a_leaf_is_named_by_its_other_rails() -> None:
    """Above its limit, so that nothing else speaks of it."""
    verdict = ran(World(pod(2, 6, parts=4), {"u0-leaf2": 0.03})).verdict
    assert [(one.component, one.kind) for one in verdict.suspects] == [("u0-leaf2", "leaf")]
