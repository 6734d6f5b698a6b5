"""A part that many share is named for what is behind it, and only where nothing smaller or larger explains as much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fabric.judge.course.shared import LowThrough, SharedCause, shared_parts
from fabric.model.topology import Topology
from tests.conftest import rack_topology

HOSTS, RAILS, ROUNDS, ROUND_S = 8, 4, 12, 1800.0
BARE = rack_topology(HOSTS)
NAMES = tuple(BARE.hosts)


def hall(units: int) -> Topology:
    """The hosts in so many units, each with a leaf for each rail."""
    size = HOSTS // units
    return Topology(
        hosts={
            name: replace(host, leaves=tuple(f"su{place // size}-leaf{rail}" for rail in range(8)))
            for place, (name, host) in enumerate(BARE.hosts.items())
        },
        switches=(),
    )


Level = Callable[[str, int, int], float]
"""What the RNIC of a host on a rail lets through in a round, of 400."""


def seen(level: Level, ring: Level | None = None, *, inside: bool = True) -> list[LowThrough]:
    """Pairs with other partners each round, on every rail; all-reduces of neighbours and all-to-alls beside them."""
    found = []
    for number in range(ROUNDS):
        at_s = number * ROUND_S
        shift = 1 + number % (HOSTS - 1)
        for rail in range(RAILS):
            for place, a in enumerate(NAMES):
                b = NAMES[(place + shift) % HOSTS]
                value = min(level(end, rail, number) for end in (a, b))
                rnics = (f"{a}/mlx5_{rail}", f"{b}/mlx5_{rail}")
                name = f"r{number}/{a}+{b}/{rail}"
                found.append(LowThrough(name, "pairwise", at_s, at_s + 10.0, (a, b), rnics, value < 380.0, value))
        for place, a in enumerate(NAMES):
            b = NAMES[place ^ 1]
            value = min((ring or level)(end, rail, number) for end in (a, b) for rail in range(RAILS))
            found.append(
                LowThrough(f"r{number}/{a}/ring", "ring", at_s + 20.0, at_s + 400.0, (a, b), (), value < 380.0, value)
            )
            if inside:
                found.append(
                    LowThrough(f"r{number}/{a}/in", "all_to_all", at_s + 500.0, at_s + 900.0, (a,), (), False, 2700.0)
                )
    return found


def slow(rails: set[int], hosts: set[str], first: int, last: int = ROUNDS, left: float = 240.0) -> Level:
    """These RNICs from one round to before another."""
    return lambda host, rail, number: left if host in hosts and rail in rails and first <= number < last else 400.0


def named(*levels: Level, units: int = 1, inside: bool = True) -> list[tuple[str, tuple[str, ...]]]:
    """Component and rivals."""
    return [(one.group.component, one.rivals) for one in of(*levels, units=units, inside=inside)]


def of(*levels: Level, units: int = 1, inside: bool = True) -> list[SharedCause]:
    """With the worst of these levels."""
    return shared_parts(
        seen(lambda host, rail, number: min(level(host, rail, number) for level in levels), inside=inside), hall(units)
    )


def test_a_leaf_that_becomes_slow_is_one_part_with_its_time_and_all_that_it_explains() -> None:
    (one,) = of(slow({3}, set(NAMES), 3))
    assert (one.group.component, one.group.kind, one.rivals) == ("su0-leaf3", "leaf", ())
    assert len(one.rnics) == HOSTS
    assert one.after_s <= 3 * ROUND_S <= one.by_s <= 3 * ROUND_S + 400.0
    assert one.over_s is None
    assert abs(one.share - 0.6) < 0.01
    every = {name.probe_id for name in seen(slow({3}, set(NAMES), 3)) if name.bad}
    assert one.explains == every


def test_a_leaf_that_recovers_says_when() -> None:
    (one,) = of(slow({3}, set(NAMES), 3, 6))
    assert one.over_s == 6 * ROUND_S


def test_a_leaf_that_lets_nothing_through_is_named_too() -> None:
    (one,) = of(slow({3}, set(NAMES), 3, left=0.0))
    assert (one.group.component, one.share) == ("su0-leaf3", 0.0)


def test_a_pcie_switch_is_named_when_all_its_rnics_become_slow_together() -> None:
    assert named(slow({2, 3}, {"gpu003"}, 3)) == [("gpu003/pcie1", ())]


def test_one_slow_rnic_is_not_its_pcie_switch() -> None:
    assert named(slow({2}, {"gpu003"}, 3)) == []


def test_two_rnics_that_became_slow_hours_apart_are_not_their_pcie_switch() -> None:
    assert named(slow({2}, {"gpu003"}, 2), slow({3}, {"gpu003"}, 7)) == []


def test_a_host_that_is_slow_as_a_whole_is_not_named_by_its_parts() -> None:
    assert named(slow(set(range(RAILS)), {"gpu003"}, 3)) == []


def test_hosts_that_are_slow_on_every_rail_are_not_named_by_their_leaves() -> None:
    assert named(slow(set(range(RAILS)), set(NAMES), 3), inside=False) == []


def test_a_leaf_that_was_slow_all_the_time_is_no_change() -> None:
    assert named(slow({3}, set(NAMES), 0)) == []


def test_one_slow_host_under_a_leaf_is_not_the_leaf() -> None:
    assert named(slow({3}, {"gpu003"}, 3)) == []


def test_of_two_leaves_that_all_slow_pairs_crossed_the_all_reduces_under_one_say_which() -> None:
    def beyond(under: bool) -> list[LowThrough]:
        first = set(NAMES[: HOSTS // 2])
        return [
            one
            for one in seen(slow({3}, first, 3), slow({3}, first if under else set(), 3))
            if one.kind != "pairwise" or len(first.intersection(one.hosts)) == 1
        ]

    assert [(one.group.component, one.rivals) for one in shared_parts(beyond(under=True), hall(2))] == [
        ("su0-leaf3", ())
    ]
    assert shared_parts(beyond(under=False), hall(2)) == []


def test_a_slower_host_under_a_slow_leaf_is_left_to_be_explained() -> None:
    worse = slow({3}, {"gpu003"}, 3, left=100.0)
    (one,) = of(slow({3}, set(NAMES), 3), worse)
    assert one.group.component == "su0-leaf3"
    assert not any("gpu003" in name and name.endswith("/3") for name in one.explains)
