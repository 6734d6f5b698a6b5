"""Looking at thousands together gives the plan of looking at each, and looks at few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan import list_schedule as module
from fabric.plan.components import components
from fabric.plan.list_schedule import list_schedule
from fabric.plan.schedule import schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.pairwise import PairwiseSpec
from tests.conftest import rack_topology
from tests.plan.test_schedule import probe, slow

SEEDS = st.integers(0, 2**32 - 1)
Planned = Callable[[list[Probe]], list[tuple[int, float]]]


def fleet(seed: int) -> list[Probe]:
    """Some 150 probes, some of them repetitions; durations add up exactly."""
    random = Random(seed)
    claims = [f"c{number}" for number in range(random.choice((5, 40, 200)))]
    kinds = [
        (tuple(random.sample(claims, random.randrange(1, 5))), random.choice((0.0, 0.5, 1.0, 2.5, 12.0)))
        for _ in range(150)
    ]
    return [probe(number, *random.choice(kinds)) for number in range(random.randrange(1, 200))]


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([module._one_by_one, module._together]))
def test_the_plan_is_that_of_looking_at_every_probe_every_time(seed: int, planned: Planned) -> None:
    """Who starts, when, and in which order; of few probes as of many."""
    probes = fleet(seed)
    found = []
    for members in components(probes):
        found += [(members[index], start_s) for index, start_s in planned(members)]
    assert found == slow(probes)


@settings(max_examples=20)
@given(SEEDS)
def test_who_waits_is_parked_under_a_claim_that_is_held(seed: int) -> None:
    """After each start nobody is left who could have started."""
    groups, left = module._grouped(fleet(seed))
    board = module._board(groups, left)
    chosen = set(module._startable(board, board.first.argsort(), 0.0).tolist())
    for number, group in enumerate(groups):
        if number not in chosen:
            assert board.held_until_s[board.parked[number]] >= 0.0
            assert board.parked[number] in group.claims


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many groups were looked at, each time."""
    counts: list[int] = []
    free = module._free

    def counted(board: module._Board, groups: module.Numbers) -> module.Numbers:
        counts.append(len(groups))
        return free(board, groups)

    monkeypatch.setattr(module, "_free", counted)
    return counts


def test_a_thousand_repetitions_are_looked_at_once_each_time(looked_at: list[int]) -> None:
    """What is looked at grows with the kinds of probes: ten kinds, a thousand of each."""
    kinds = [(f"r{number % 3}", "all") for number in range(10)]
    list_schedule([probe(number, kinds[number % 10], float(number % 10 + 1)) for number in range(10_000)])
    assert 0 < sum(looked_at) < 30 * 10_000


def test_a_claim_that_falls_free_wakes_only_those_who_wait_for_it(looked_at: list[int]) -> None:
    """A thousand hosts of ten probes each: nobody looks at all of them whenever one of them is through."""
    random = Random(1)
    list_schedule([probe(n, (f"host{n % 1000}", f"own{n}"), random.uniform(1.0, 2.0)) for n in range(10_000)])
    assert 0 < sum(looked_at) < 20 * 10_000


def test_what_is_looked_at_for_pairs_grows_with_the_hosts(looked_at: list[int]) -> None:
    """Eight rounds of pairs under leaves of 32 hosts: four times the hosts, hardly more than four times the work."""
    work = []
    for count in (128, 512):
        rack = rack_topology(count, parts=2)
        units = [(name, f"su{number // 32}") for number, name in enumerate(rack.hosts)]
        leaves = {name: replace(rack.hosts[name], leaves=(f"{unit}-0", f"{unit}-1")) for name, unit in units}
        looked_at.clear()
        schedule(expand_phase(Phase("p", (PairwiseSpec(rounds=8),)), replace(rack, hosts=leaves), tuple(leaves)))
        work.append(sum(looked_at))
    assert 0 < work[1] <= 5.5 * work[0]
