"""What fits into a time: the rounds that tell most, and a word on what the rest would have told."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan.budget import Part, within
from fabric.plan.plan import PhasePlan, Plan
from fabric.plan.schedule import schedule


def probe(name: str, takes_s: float, *parts: str) -> Probe:
    """A probe of the one host there is; *parts* are what it would show."""
    return Probe(name, "k", "p", ("h",), ("h/all",), takes_s, {"parts": " ".join(parts)})


def covers(of: Probe) -> Iterator[Part]:
    """What it would show."""
    return (("part", name) for name in str(of.params["parts"]).split())


def planned(*phases: list[Probe]) -> Plan:
    """One phase for each list."""
    return Plan(tuple(PhasePlan(Phase(f"p{n}", ()), schedule(probes), ()) for n, probes in enumerate(phases)))


def kept(plan: Plan) -> set[str]:
    """Ids of all its probes."""
    return {slot.probe.probe_id for phase in plan.phases for slots in phase.schedule.components for slot in slots}


def test_what_fits_as_a_whole_is_kept_as_a_whole() -> None:
    plan = planned([probe("a", 10, "x"), probe("b", 10, "x")])
    chosen = within(plan, 20, covers)
    assert chosen.plan is plan
    assert (chosen.covered, chosen.coverable, chosen.uncovered, chosen.dropped) == (1, 1, (), ())


def test_new_components_per_second_decide() -> None:
    plan = planned([probe("again", 10, "x"), probe("long", 30, "y", "z"), probe("short", 10, "x", "w")])
    chosen = within(plan, 40, covers)
    assert kept(chosen.plan) == {"short", "long"}
    assert chosen.covered == chosen.coverable == 4


def test_what_is_left_out_and_what_it_would_have_told_is_said() -> None:
    plan = planned([probe("a", 10, "x")], [probe("b", 100, "y"), probe("c", 10, "x")])
    chosen = within(plan, 15, covers)
    assert chosen.uncovered == (("part", "y"),)
    assert (chosen.covered, chosen.coverable) == (1, 2)
    assert dict(chosen.dropped) == {"p1": 2}


def test_one_long_round_that_tells_more_than_all_short_ones_is_taken() -> None:
    plan = planned([probe("short", 1, "x"), probe("long", 100, *"abcdefghij")])
    assert kept(within(plan, 100, covers).plan) == {"long"}


def test_probes_that_run_at_once_are_taken_together() -> None:
    one, other = (Probe(name, "k", "p", (name,), (name,), 10.0, {"parts": name}) for name in "ab")
    later = Probe("c", "k", "p", ("a",), ("a",), 10.0, {"parts": "a"})
    assert kept(within(planned([one, other, later]), 10, covers).plan) == {"a", "b"}


def test_a_budget_in_which_nothing_fits_leaves_nothing() -> None:
    chosen = within(planned([probe("a", 10, "x")]), 5, covers)
    assert (chosen.plan.probes, chosen.covered, chosen.uncovered) == (0, 0, (("part", "x"),))


@settings(max_examples=50, deadline=None)
@given(
    rounds=st.lists(st.tuples(st.integers(1, 60), st.sets(st.sampled_from("abcdefgh"))), min_size=1, max_size=12),
    budget=st.integers(1, 300),
)
def test_the_choice_always_fits_and_never_tells_less_than_a_third_of_the_best(
    rounds: list[tuple[int, set[str]]], budget: int
) -> None:
    """Against every subset: greedy with the best single choice reaches (1 - 1/e) / 2 = 0.316 of the optimum."""
    plan = planned([probe(str(n), float(takes), *sorted(parts)) for n, (takes, parts) in enumerate(rounds)])
    chosen = within(plan, budget, covers)
    assert chosen.plan.duration_s <= budget
    best = 0
    for picked in range(1 << len(rounds)):
        some = [one for n, one in enumerate(rounds) if picked >> n & 1]
        if sum(takes for takes, _ in some) <= budget:
            best = max(best, len(set().union(*(parts for _, parts in some))))
    assert chosen.covered >= 0.316 * best
    assert chosen.covered + len(chosen.uncovered) == chosen.coverable
