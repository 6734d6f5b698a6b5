"""A part that many share is named for what is behind it, and only where nothing smaller or larger explains as much."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.measured_rack import one_number
from fabric.judge.course.located import over_time
from fabric.model.probe import Probe
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.halls import NAMES, Told, hall, told

HOSTS, RAILS, ROUNDS, ROUND_S = 8, 4, 20, 1800.0
Left = Callable[[str, int, int], float]
"""What the RNIC of a host on a rail lets through in a round."""


def found(*left: Left, units: int = 1) -> list[Told]:
    """Of pairs with other partners each round on every rail, and of all-reduces and all-to-alls beside them."""
    random, topology = Random(1), hall(units)
    phases = [Phase(f"soak-r{n}", (PairwiseSpec(),), label="soak", round=n) for n in range(ROUNDS)]
    probes, results = [], {}

    def add(number: int, kind: str, hosts: tuple[str, ...], share: float, **params: object) -> None:
        label = params.get("rnic", kind)
        name = f"{phases[number].name}/{'+'.join(hosts)}/{label}"
        probes.append(Probe(name, kind, phases[number].name, hosts, (), 10.0, {"name": kind, **params}))
        value = 390.0 * share * random.gauss(1.0, 0.003)
        results[name] = one_number(name, value, at_s=number * ROUND_S, s=10.0)

    def worst(number: int, hosts: tuple[str, ...], rails: range) -> float:
        return min(one(host, rail, number) for one in left for host in hosts for rail in rails)

    for number in range(ROUNDS):
        for place, a in enumerate(NAMES):
            b = NAMES[(place + 1 + number % (HOSTS - 1)) % HOSTS]
            for rail in range(RAILS):
                rnic = f"mlx5_{rail}"
                add(number, "pairwise", (a, b), worst(number, (a, b), range(rail, rail + 1)), rnic=rnic, peer_rnic=rnic)
            if place % 2 == 0:
                ring = (a, NAMES[place + 1])
                add(number, "tor_all_reduce", ring, worst(number, ring, range(RAILS)), ranks=8)
            add(number, "all_to_all", (a,), 1.0, gpus=(0, 1), series="all")
    return told(over_time(probes, results, phases, topology, Samples(300.0, {})))


def slow(rails: set[int], hosts: set[str], first: int, last: int = ROUNDS, left: float = 0.6) -> Left:
    """These RNICs from one round to before another."""
    return lambda host, rail, number: left if host in hosts and rail in rails and first <= number < last else 1.0


def named(*left: Left, units: int = 1) -> list[str]:
    """Their components."""
    return [one.component for one in found(*left, units=units)]


def test_a_leaf_that_becomes_slow_is_one_part_with_its_time_and_all_that_it_explains() -> None:
    (one,) = found(slow({3}, set(NAMES), 3))
    assert (one.component, one.part, one.kind, one.rivals) == ("su0-leaf3", "leaf", "step", ())
    assert one.hosts == NAMES
    assert one.text == "lost 40% of its bandwidth at once, at about 1.5 h, and kept it lost, on 8 RNICs"
    assert one.explains >= (ROUNDS - 3) * HOSTS


def test_a_leaf_that_recovers_says_when() -> None:
    (one,) = found(slow({3}, set(NAMES), 3, 9))
    assert one.text == "lost 40% of its bandwidth from 1.5 h to 4.0 h, and then it was well again, on 8 RNICs"


def test_a_pcie_switch_is_named_when_all_its_rnics_become_slow_together() -> None:
    assert named(slow({2, 3}, {"gpu003"}, 3)) == ["gpu003/pcie1"]


def test_one_slow_rnic_is_not_its_pcie_switch() -> None:
    assert named(slow({2}, {"gpu003"}, 3)) == ["gpu003/mlx5_2"]


def test_two_rnics_that_became_slow_hours_apart_are_not_their_pcie_switch() -> None:
    assert set(named(slow({2}, {"gpu003"}, 2), slow({3}, {"gpu003"}, 13))) == {"gpu003/mlx5_2", "gpu003/mlx5_3"}


def test_one_slow_host_under_a_leaf_is_not_the_leaf() -> None:
    assert named(slow({3}, {"gpu003"}, 3)) == ["gpu003/mlx5_3"]


@pytest.mark.slow
def test_a_slower_host_under_a_slow_leaf_is_named_beside_it() -> None:
    worse = slow({3}, {"gpu003"}, 3, left=0.25)
    assert set(named(slow({3}, set(NAMES), 3), worse)) == {"su0-leaf3", "gpu003/mlx5_3"}


@pytest.mark.slow
def test_of_two_leaves_the_one_under_which_all_is_slow_is_named() -> None:
    assert named(slow({3}, set(NAMES[:4]), 3), units=2) == ["su0-leaf3"]
