"""What real clusters show where nothing is wrong: groups that no file mentions, contention between them, dips."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.judge.locate.pairs.fitted import Fitted, fit_together
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN

HOSTS, RAILS, ROUNDS = 12, 4, 5
Loss = dict[str, float]


def rails(seed: int, *, losses: Loss | None = None, spine: float = 0.0) -> list[Fitted]:
    """
    Two leaves of six on each rail; five hosts are 5 % slower, up to 12 % more to the others; one test in seven dips.

    *losses* by host side (``h3/mlx5_1``); *spine*: what one spine of four loses, on every rail, paths unknown.
    """
    random = np.random.default_rng(seed)
    lower = np.roll(np.arange(HOSTS) < 5, int(random.integers(HOSTS)))
    found = []
    for rail in range(RAILS):
        order = np.concatenate([random.permutation(HOSTS).reshape(-1, 2) for _ in range(ROUNDS)])
        a, b = order.T
        leaf = np.arange(HOSTS) // 6
        kept = np.where(lower[a] | lower[b], 0.95, 1.0)
        kept *= np.where(lower[a] != lower[b], 1 - 0.12 * random.uniform(size=len(a)), 1.0)
        kept *= np.where(random.uniform(size=len(a)) < 1 / 7, random.uniform(0.25, 0.6, len(a)), 1.0)
        kept *= np.where((leaf[a] != leaf[b]) & (random.integers(4, size=len(a)) == 0), 1 - spine, 1.0)
        for name, loss in (losses or {}).items():
            host, device = name.split("/")
            if device == f"mlx5_{rail}":
                kept *= np.where((a == int(host[1:])) | (b == int(host[1:])), 1 - loss, 1.0)
        gbps = 395 * kept * np.exp(0.003 * random.standard_t(4, size=len(a)))
        names, leaves = tuple(f"h{n}" for n in range(HOSTS)), (f"r{rail}-leaf0", f"r{rail}-leaf1")
        via = np.full(len(a), UNKNOWN)
        found.append(PairSamples(names, a, b, gbps, leaves, leaf, (), via, rail=f"mlx5_{rail}", placed=True))
    return fit_together(found)


def certain(planes: list[Fitted]) -> set[str]:
    return {one.components.names[b.component] for one in planes for b in one.blamed if b.certain}


def named(planes: list[Fitted]) -> set[str]:
    return {one.components.names[b.component] for one in planes for b in one.blamed}


@pytest.mark.parametrize("seed", [101, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (102, 103)), 104])
def test_hosts_that_stand_elsewhere_are_a_group_also_where_leaves_are_known(seed: int) -> None:
    planes = rails(seed)
    assert certain(planes) == set()
    assert any(kind.groups for kind in planes[0].classes)


def test_a_bad_host_side_is_named_beside_them_and_nobody_else() -> None:
    assert certain(rails(101, losses={"h3/mlx5_1": 0.3})) == {"h3/mlx5_1"}


@pytest.mark.slow  # pods with drawn ways say it of fewer samples: test_drawn_ways
def test_one_spine_of_four_is_offered_where_paths_are_not_known() -> None:
    """Few samples show it: it may be bad, and is not called so."""
    planes = rails(102, spine=0.4)
    assert "spines" in named(planes)
    assert certain(planes) <= {"spines"}


def test_two_rails_on_the_same_leaves_have_the_same_spines_above() -> None:
    """One rail draws the slow uplink of a leaf, the other does well above all leaves: it is not the spines."""
    random, planes = np.random.default_rng(1), []
    leaf = np.arange(16) // 4
    for rail in range(2):
        a, b = np.concatenate([random.permutation(16).reshape(-1, 2) for _ in range(6)]).T
        slow = (rail == 0) & (leaf[a] != leaf[b]) & ((leaf[a] == 2) | (leaf[b] == 2)) & (random.random(len(a)) < 0.5)
        gbps = np.where(slow, 160.0, 395.0) * np.exp(0.003 * random.standard_normal(len(a)))
        names, leaves, via = tuple(f"h{n}" for n in range(16)), tuple(f"leaf{n}" for n in range(4)), np.full(len(a), -1)
        planes.append(PairSamples(names, a, b, gbps, leaves, leaf, (), via, rail=f"mlx5_{rail}", placed=True))
    first = fit_together(planes)[0]
    (found,) = first.blamed
    assert first.components.names[found.component] == "leaf2:uplinks"
    assert len(set(found.rivals)) == len(found.rivals)
