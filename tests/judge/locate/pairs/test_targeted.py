"""Tests that tell suspects apart: where to go on, and with whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.rounds import PairState, next_round, to_settle
from fabric.model.diagnosis import PairTest

HOSTS = {f"h{n:02d}": f"leaf{n // 16}" for n in range(64)}
LEAVES = {leaf: tuple(h for h in HOSTS if HOSTS[h] == leaf) for leaf in dict.fromkeys(HOSTS.values())}
# One host under each leaf is reached over each spine, as a leaf with as many uplinks as hosts has it.
ROUTES = {(leaf, host): f"spine{int(host[1:]) % 16:02d}" for leaf in LEAVES for host in HOSTS if HOSTS[host] != leaf}
SPINES = tuple(sorted(set(ROUTES.values())))


def way_of(test: PairTest) -> set[str]:
    over = ROUTES.get((HOSTS[test.a], test.b))
    return {f"{HOSTS[test.a]}->{over}", f"{over}->{HOSTS[test.b]}"} if over else set()


def settled(slow: set[str], rounds: int = 10) -> PairState:
    """After every round that is asked for."""
    state = PairState(LEAVES, SPINES, routes=ROUTES, directed=True, most_rounds=rounds)
    for number in range(40):
        tests = next_round(state)
        if not tests:
            return state
        told = [replace(test, via=ROUTES.get((HOSTS[test.a], test.b))) for test in tests]
        jitter = (0.2 * ((7 * number + 3 * n) % 5) for n in range(len(told)))
        state = state.with_results(
            (test, (240.0 if way_of(test) & slow else 396.0) + more) for test, more in zip(told, jitter, strict=True)
        )
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("leaf", "other", "spine"), [("leaf1", "leaf2", "spine08"), ("leaf0", "leaf3", "spine03")], ids=["8", "3"]
)
def test_two_uplinks_of_a_spine_that_are_slow_in_one_direction_each_are_both_named_or_the_spine(
    leaf: str, other: str, spine: str
) -> None:
    """
    Each is the other uplink of the only tests that told: in the direction that is not slow it clears the other.

    While every test over the spine crosses one of them, the spine is by far the shorter description.
    """
    state = settled({f"{leaf}->{spine}", f"{spine}->{other}"})
    fitted = fit(state.samples())
    named = {(fitted.components.kinds[b.component], fitted.components.names[b.component]) for b in fitted.blamed}
    assert named in ({("link_up", f"{leaf}--{spine}"), ("link_down", f"{other}--{spine}")}, {("spine", spine)})
    assert to_settle(fitted) == []


def test_rounds_end_where_they_must_however_much_is_open() -> None:
    assert settled({f"leaf{n}->spine03" for n in range(4)} | {"spine03->leaf1"}, rounds=5).rounds <= 5
