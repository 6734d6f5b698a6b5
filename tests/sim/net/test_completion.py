"""When flows end, beside SimGrid's recorded answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.net.clos import ClosSpec, build
from fabric.sim.net.maxmin import completion, max_min
from fabric.sim.net.route import routes
from tests.places import GOLDEN

FOLDER = GOLDEN / "simgrid"


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("2-levels-512", ClosSpec(512, 1, 16, 16, 2, 0, 0, False, 400.0, 400.0)),
        ("3-levels-4096", ClosSpec(4096, 1, 16, 16, 3, 16, 16, False, 400.0, 400.0)),
    ],
)
def test_flows_end_when_simgrid_says(name, spec):
    """Routes are SimGrid's own D-mod-K, so every completion agrees to 1e-9."""
    src, dst, end_s = np.loadtxt(FOLDER / f"{name}.txt", unpack=True)
    clos = build(spec)
    paths = routes(clos, src.astype(np.int64), dst.astype(np.int64), engine="ftree")
    ours_s = completion(paths.links, clos.capacity_gbps, np.full(len(src), 1e12))
    np.testing.assert_allclose(ours_s, end_s, rtol=1e-9)


def test_capacity_that_is_freed_is_used():
    """Two flows share a link until the shorter ends; the longer then has it alone."""
    links = np.array([[0, 1], [0, 1]])
    ends_s = completion(links, np.array([8.0]), np.array([1e9, 3e9]))
    assert ends_s == pytest.approx([2.0, 4.0])


def test_a_dead_link_never_ends():
    """Nothing to send ends at once, nothing to send it over never, no limit at once."""
    links = np.array([[0], [1], [0], [2]])
    ends_s = completion(links, np.array([0.0, 8.0]), np.array([1e9, 1e9, 0.0, 5e9]))
    assert ends_s.tolist() == [np.inf, 1.0, 0.0, 0.0]


def test_sizes_must_be_sizes():
    """A size that is not a number raises."""
    with pytest.raises(ValueError, match="sizes"):
        completion(np.array([[0]]), np.array([8.0]), np.array([np.nan]))


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=20, deadline=None)
def test_slower_flows_are_not_asked_again_in_vain(seed, equal):
    """Keeping the rates of slower flows from one end to the next gives what solving everything anew gives."""
    rng = np.random.default_rng(seed)
    links = rng.integers(0, 21, (60, 4))
    capacity = rng.choice([0.0, 1.0, 3.0, 8.0, 20.0], 20)
    size_bytes = np.full(60, 1e9) if equal else rng.random(60) * 1e9
    np.testing.assert_allclose(completion(links, capacity, size_bytes), anew(links, capacity, size_bytes), rtol=1e-9)


def anew(links, capacity_gbps, size_bytes):
    """Every rate from scratch whenever a flow ends."""
    left, ends_s, now_s, going = size_bytes * 8e-9, np.full(len(links), np.inf), 0.0, np.arange(len(links))
    while len(going):
        rate = max_min(links[going], capacity_gbps)
        if not rate.any():
            break
        left_s = np.array(
            [0.0 if np.isinf(r) else np.inf if r == 0 else left[g] / r for g, r in zip(going, rate, strict=True)]
        )
        step_s = left_s.min()
        now_s += step_s
        left[going] -= np.array([0.0 if np.isinf(r) else r * step_s for r in rate])
        done = left_s <= step_s * (1 + 1e-9)
        ends_s[going[done]] = now_s
        going = going[~done]
    return ends_s
