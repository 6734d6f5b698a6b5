"""A single pair that misses its limit by a hair."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.judge.locate.pairs.findings import near_limit
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.samples import UNKNOWN, PairSamples
from fabric.model.outcome import Outcome
from fabric.model.verdict import ProbeVerdict

LIMIT = 384.0


def told(
    value: float, *, pair: tuple[int, int] = (0, 1), level: float = 388.0, times: int = 1, then: float | None = None
) -> list[str]:
    """Ids that become INCONCLUSIVE where one pair of eight hosts reaches *value*, and all others about *level*."""
    random = np.random.default_rng(1)
    a, b = np.triu_indices(8, 1)
    again = np.flatnonzero((a == pair[0]) & (b == pair[1])).repeat(times - 1)
    a, b = np.concatenate([a, a[again]]), np.concatenate([b, b[again]])
    gbps = level * (1 + 0.005 * random.normal(size=len(a)))
    gbps[(a == pair[0]) & (b == pair[1])] = value
    gbps[28:] = value if then is None else then
    names = tuple(f"h{number}" for number in range(8))
    leaf, via = np.full(8, UNKNOWN), np.full(len(a), UNKNOWN)
    fitted = fit(PairSamples(names, a, b, gbps, (), leaf, (), via, rail="mlx5_0"))
    ids = [f"p{number}" for number in range(len(a))]
    verdicts = {
        name: ProbeVerdict(
            name, Outcome.FAIL if number < LIMIT else Outcome.PASS, "", value_gbps=number, limit_gbps=LIMIT
        )
        for name, number in zip(ids, gbps.tolist(), strict=True)
    }
    found = near_limit(fitted, ids, verdicts)
    assert all(
        one.outcome is Outcome.INCONCLUSIVE and "measure this pair again" in one.reason for one in found.values()
    )
    return [name for name in found if (a[int(name[1:])], b[int(name[1:])]) == pair]


def test_a_single_sample_within_the_noise_is_to_be_measured_again() -> None:
    assert told(383.2) == ["p0"]


def test_a_pair_that_missed_once_and_reached_it_later_is_near_its_limit() -> None:
    assert told(383.2, times=3, then=389.0) == ["p0"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"value": 360.0}, "far below is no noise"),
        ({"value": 383.2, "times": 2}, "measured twice it was low twice"),
        ({"value": 383.2, "level": 383.0}, "its ends miss the limit with others as well"),
    ],
)
def test_otherwise_the_limit_stands(more: dict[str, float], why: str) -> None:
    assert told(**more) == [], why  # type: ignore[arg-type]
