"""Rates are those of naive water-filling, and every one of them has its bottleneck."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.net.maxmin import max_min

CAPACITIES = st.one_of(st.sampled_from([0.0, 1.0, 37.5, 100.0, 400.0, np.inf]), st.floats(1e-6, 1e3))


@st.composite
def questions(draw):
    """Random paths, some short, some with a link twice; weights, limits and jobs or none of them."""
    count, rows = draw(st.integers(1, 12)), draw(st.integers(1, 20))
    row = st.lists(st.integers(0, count), min_size=6, max_size=6)
    links = np.array(draw(st.lists(row, min_size=rows, max_size=rows)), dtype=np.int32)
    capacity = np.array(draw(st.lists(CAPACITIES, min_size=count, max_size=count)))

    def each(values):
        return draw(st.none() | st.lists(values, min_size=rows, max_size=rows).map(np.array))

    return {
        "links": links,
        "capacity_gbps": capacity,
        "weight": each(st.sampled_from([1.0, 0.25, 0.5, 1 / 3, 3.0])),
        "limit_gbps": each(st.sampled_from([0.0, 5.0, 100.0, np.inf])),
        "job": each(st.integers(0, 7)),
    }


def filled(question):
    """Raise all rates together; whoever meets a full link or a limit stops there."""
    links, left = question["links"], np.append(question["capacity_gbps"], np.inf)
    rows = range(len(links))
    weight = np.ones(len(links)) if question["weight"] is None else question["weight"]
    limit = np.full(len(links), np.inf) if question["limit_gbps"] is None else question["limit_gbps"]
    job = np.arange(len(links)) if question["job"] is None else question["job"]
    rates, going = np.full(job.max() + 1, np.inf), set(job.tolist())
    while going:
        load = np.zeros(len(left))
        for row in rows:
            np.add.at(load, links[row], weight[row] * (job[row] in going))
        level_of = np.array([np.inf if load[link] == 0 else left[link] / load[link] for link in range(len(left))])
        least = np.array([min(limit[row], level_of[links[row]].min()) for row in rows])
        level = min(least[row] for row in rows if job[row] in going)
        if level == np.inf:
            break
        met = {job[row] for row in rows if job[row] in going and least[row] <= level * (1 + 1e-12)}
        for row in rows:
            np.subtract.at(left, links[row], weight[row] * level * (job[row] in met))
        left = np.maximum(left, 0.0)
        rates[list(met)] = level
        going -= met
    return rates


def used(question, rates):
    """What flows on each link."""
    links, count = question["links"], len(question["capacity_gbps"])
    job = np.arange(len(links)) if question["job"] is None else question["job"]
    weight = np.ones(len(links)) if question["weight"] is None else question["weight"]
    finite = np.where(np.isinf(rates[job]), 0.0, rates[job]) * weight
    return np.bincount(links.ravel(), np.repeat(finite, 6), minlength=count + 1)[:count]


@given(questions())
@settings(max_examples=40, deadline=None)
def test_rates_are_those_of_water_filling(question):
    """Whole rounds at once give what raising the water step by step gives."""
    np.testing.assert_allclose(max_min(**question), filled(question), rtol=1e-9, atol=1e-9)


@given(questions())
@settings(max_examples=40, deadline=None)
def test_every_rate_has_its_bottleneck(question):
    """No link carries more than it can, and each job has a limit or a full link where nobody gets more."""
    rates, links, capacity = max_min(**question), question["links"], question["capacity_gbps"]
    flow = used(question, rates)
    assert (flow <= capacity * (1 + 1e-9) + 1e-9).all()
    job = np.arange(len(links)) if question["job"] is None else question["job"]
    limit = question["limit_gbps"]
    full = np.append(flow >= capacity * (1 - 1e-9) - 1e-9, False)
    fastest = np.zeros(len(capacity) + 1)
    np.maximum.at(fastest, links.ravel(), np.repeat(rates[job], 6))
    for one in np.unique(job):
        rows = np.flatnonzero(job == one)
        at_limit = limit is not None and rates[one] >= limit[rows].min() * (1 - 1e-9)
        hops = links[rows].ravel()
        held = full[hops] & (fastest[hops] <= rates[one] * (1 + 1e-9) + 1e-9)
        assert at_limit or held.any() or np.isinf(rates[one])


def test_what_nothing_limits_is_infinite():
    """A flow without links does not hang the solver and takes nothing from others."""
    links = np.array([[1, 1], [0, 1]])
    assert max_min(links, np.array([8.0])).tolist() == [np.inf, 8.0]
    assert max_min(np.zeros((0, 6), dtype=np.int32), np.array([8.0])).tolist() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capacity_gbps": np.array([1.0, np.nan])}, "capacity"),
        ({"capacity_gbps": np.array([1.0, -1.0])}, "capacity"),
        ({"weight": np.array([0.0, 1.0])}, "weight"),
        ({"weight": np.array([1.0])}, "1 weights for 2"),
        ({"limit_gbps": np.array([np.nan, 1.0])}, "limit"),
        ({"job": np.array([-1, 0])}, "job"),
        ({"links": np.array([[0, 1], [-1, 0]])}, "link id"),
        ({"links": np.array([[0, 1], [3, 0]])}, "link id"),
    ],
)
def test_nonsense_is_refused(change, said):
    """Numbers that mean nothing raise; they do not become a rate."""
    question = {"links": np.array([[0, 1], [1, 2]]), "capacity_gbps": np.array([1.0, 2.0]), **change}
    with pytest.raises(ValueError, match=said):
        max_min(**question)
