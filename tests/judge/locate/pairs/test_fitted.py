"""Who is bad and how much good pairs vary, found together from few samples."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.judge.locate.pairs.fitted import Fitted, fit
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN


def rounds(seed: int, *, cv: float, count: int = 4, hosts: int = 8, loss: float = 0.0) -> Fitted:
    """*count* samples of each host with partners drawn by lot; host 3 has lost *loss*."""
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(hosts).reshape(-1, 2) for _ in range(count)])
    a, b = order[:, 0], order[:, 1]
    lost = np.where((a == 3) | (b == 3), loss, 0.0)
    gbps = 392 * (1 - lost) * (1 + cv * random.normal(size=len(a)))
    names, none = tuple(f"h{number}" for number in range(hosts)), np.full(hosts, UNKNOWN)
    return fit(PairSamples(names, a, b, gbps, (), none, (), np.full(len(a), UNKNOWN), rail="mlx5_0"))


def certain(fitted: Fitted) -> list[str]:
    return [fitted.components.names[one.component] for one in fitted.blamed if one.certain]


@pytest.mark.slow
@pytest.mark.parametrize(("cv", "most"), [(0.02, 1), (0.03, 3)])
def test_few_samples_that_vary_call_hardly_anybody_bad_for_certain(cv: float, most: int) -> None:
    """What is slow could be called bad, and the rest be steady: or nobody is, and all of them vary."""
    assert sum(bool(certain(rounds(seed, cv=cv))) for seed in range(40)) <= most


def test_a_host_that_lost_a_tenth_is_bad_for_certain_after_as_few() -> None:
    assert [certain(rounds(seed, cv=0.01, loss=0.1)) for seed in range(4)] == [["h3/mlx5_0"]] * 4


def test_a_host_that_is_as_slow_as_healthy_ones_are_apart_is_not_called_bad() -> None:
    """Where good hosts differ by 1 %, one that loses 2.5 % may be one of them; where they do not differ, it is bad."""

    def gain(spread: float) -> float:
        random = np.random.default_rng(4)
        own = 1 + spread * random.normal(size=24)
        own[5] = 0.975
        a, b = np.triu_indices(24, 1)
        gbps = 390 * np.minimum(own[a], own[b]) * (1 + 0.004 * random.normal(size=len(a)))
        hosts, none = tuple(f"h{n}" for n in range(24)), np.full(24, UNKNOWN)
        samples = PairSamples(hosts, a, b, gbps, (), none, (), np.full(len(a), UNKNOWN), placed=True)
        found = fit(samples).blamed
        return max((one.gain for one in found if one.component == 5), default=0.0)

    assert gain(0.0) > 20
    assert gain(0.01) < gain(0.0) / 2


def test_noise_of_four_percent_is_found_to_be_so() -> None:
    """A first window of 3 % around the level must not make it look smaller."""
    random = np.random.default_rng(2)
    a, b = np.triu_indices(40, 1)
    gbps = 390 * (1 + 0.04 * random.normal(size=len(a)))
    none = np.full(40, UNKNOWN)
    samples = PairSamples(tuple(f"h{n}" for n in range(40)), a, b, gbps, (), none, (), np.full(len(a), UNKNOWN))
    assert 0.036 < fit(samples).noise < 0.044
