"""Looking at thousands together gives the plan of looking at each, and looks at few."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan.list_schedule import Few, Many, grouped, started
from fabric.plan.schedule import components
from fabric.probes.kinds import expand_phase
from fabric.probes.pairwise import PairwiseSpec
from tests.conftest import rack_topology
from tests.plan.test_schedule import probe, slow

SEEDS = st.integers(0, 2**32 - 1)


def fleet(seed: int) -> list[Probe]:
    """Some 150 probes, some of them repetitions; durations add up exactly."""
    random = Random(seed)
    claims = [f"c{number}" for number in range(random.choice((5, 40, 200)))]
    kinds = [
        (tuple(random.sample(claims, random.randrange(1, 5))), random.choice((0.0, 0.5, 1.0, 2.5, 12.0)))
        for _ in range(150)
    ]
    return [probe(number, *random.choice(kinds)) for number in range(random.randrange(1, 200))]


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([Few, Many]))
def test_the_plan_is_that_of_looking_at_every_probe_every_time(seed: int, kind: type[Few] | type[Many]) -> None:
    """Who starts, when, and in which order; of few probes as of many."""
    probes = fleet(seed)
    found = []
    for members in components(probes):
        groups, left_s = grouped(members)
        found += [(members[index], start_s) for index, start_s in started(groups, kind(groups, left_s))]
    assert found == slow(probes)


def looked_at(probes: list[Probe]) -> int:
    """How often a group is looked at until all are planned."""
    groups, left_s = grouped(probes)
    waiting = Many(groups, left_s)
    started(groups, waiting)
    return waiting.looked_at


def test_many_repetitions_are_looked_at_once_each_time() -> None:
    """What is looked at grows with the kinds of probes: ten kinds, two hundred of each."""
    kinds = [(f"r{number % 3}", "all") for number in range(10)]
    assert looked_at([probe(n, kinds[n % 10], float(n % 10 + 1)) for n in range(2_000)]) < 30 * 2_000


def test_a_claim_that_falls_free_wakes_only_those_who_wait_for_it() -> None:
    """Two hundred hosts of ten probes each: nobody looks at all of them whenever one of them is through."""
    random = Random(1)
    assert (
        looked_at([probe(n, (f"host{n % 200}", f"own{n}"), random.uniform(1.0, 2.0)) for n in range(2_000)])
        < 20 * 2_000
    )


def test_what_is_looked_at_for_pairs_grows_with_the_hosts() -> None:
    """Eight rounds of pairs under leaves of 32 hosts: four times the hosts, hardly more than four times the work."""
    work = []
    for count in (128, 512):
        rack = rack_topology(count, parts=2)
        units = [(name, f"su{number // 32}") for number, name in enumerate(rack.hosts)]
        leaves = {name: replace(rack.hosts[name], leaves=(f"{unit}-0", f"{unit}-1")) for name, unit in units}
        probes = expand_phase(Phase("p", (PairwiseSpec(rounds=8),)), replace(rack, hosts=leaves), tuple(leaves))
        work.append(sum(looked_at(members) for members in components(probes)))
    assert 0 < work[1] <= 5.5 * work[0]
