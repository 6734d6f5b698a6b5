"""What is said of parts that were measured again: named, cleared or open, and not by the dip that chose them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.course.located import CLEARED, OPEN, TOO_MANY, Course, over_time
from fabric.model.probe import AGAIN, Probe
from fabric.model.sampling import Samples
from tests.judge.course.dipping_rack import RACK, Rounds, Share, ends, measured, soak
from tests.judge.course.halls import Told, told

BAD = "gpu003/mlx5_1"
ROUNDS = 12
FLEET = rack_topology(32, parts=8)


def ran(
    share: Share, *, follow: bool = True, rounds: int = ROUNDS, fleet: bool = False, round_s: float = 14_400.0
) -> list[Told]:
    """What is found over time in so many rounds; with *follow* with what was measured again."""
    return told(ran_course(share, follow=follow, rounds=rounds, fleet=fleet, round_s=round_s))


def ran_course(
    share: Share, *, follow: bool = True, rounds: int = ROUNDS, fleet: bool = False, round_s: float = 14_400.0
) -> Course:
    """As it is."""
    topology = FLEET if fleet else RACK
    run = Rounds(share, topology)
    for number in range(1, rounds + 1):
        run.run(soak(number, topology, round_s=round_s if follow else 1.0))
    return over_time(run.probes, run.results, [one.phase for one in run.plans], topology, Samples(300.0, {}))


def once(probe: Probe) -> float:
    """Dips in one planned test with a partner."""
    return 0.5 if probe.phase == "soak-r2" and BAD in ends(probe) and probe.probe_id.endswith(".t6") else 1.0


def again(every: int) -> Share:
    """Then in every so-many-th of its further tests."""

    def share(probe: Probe) -> float:
        number = int(probe.probe_id.rpartition(".n")[2]) if probe.params.get(AGAIN) == BAD else 1
        return 0.5 if number % every == 0 else once(probe)

    return share


def by_part(found: list[Told]) -> dict[str, Told]:
    """One finding for each."""
    assert len({one.component for one in found}) == len(found)
    return {one.component: one for one in found}


def test_a_part_that_dipped_once_and_not_again_is_cleared_with_what_was_measured() -> None:
    found = by_part(ran(once))
    assert {one.kind for one in found.values()} == {CLEARED}
    assert len(found) == 2
    assert found[BAD].text == (
        "dipped once in 48 probes, not again in 149 more: no suspect (95 %: it dips in fewer than 1 of 50)"
    )


def test_a_part_that_dips_again_is_named_and_its_partner_is_not() -> None:
    found = by_part(ran(again(12)))
    assert [(one.component, one.kind) for one in found.values() if one.kind == "dips"] == [(BAD, "dips")]
    assert len(found) == 1
    assert "dips to 50% in " in found[BAD].text


def test_the_dip_that_chose_a_part_does_not_count() -> None:
    """With it there would be two; one alone is too few."""

    def share(probe: Probe) -> float:
        of_it = probe.params.get(AGAIN) == BAD and probe.phase == "soak-r3"
        return 0.5 if of_it and probe.probe_id.endswith(".n7") else once(probe)

    found = by_part(ran(share))
    assert found[BAD].kind == OPEN
    assert "and in 1 of 298 more" in found[BAD].text


def test_without_a_follow_up_one_dip_says_nothing() -> None:
    assert ran(once, follow=False) == []


def test_what_was_measured_again_is_no_part_of_the_course_that_was_planned() -> None:
    """A part that is slow for as long as it is looked at alone has no step in what was planned."""
    found = by_part(ran(lambda probe: 0.5 if AGAIN in probe.params and BAD in ends(probe) else once(probe)))
    assert [one.kind for one in found.values() if one.component == BAD] in ([CLEARED], ["low"], [OPEN])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_of_a_fleet_that_dips_now_and_then_nobody_is_named(seed: int) -> None:
    """Each test has a chance of its own: those that are chosen for a dip are as good as the others."""

    def share(probe: Probe) -> float:
        return 0.5 if Random(f"{seed}/{probe.probe_id}").random() < 0.001 else 1.0

    found = ran(share, fleet=True)
    assert [one.component for one in found if one.kind == "dips"] == []
    assert [one for one in found if one.kind == CLEARED]


@pytest.mark.slow
def test_many_that_dip_in_one_round_are_said_to_be_no_single_part() -> None:
    def share(probe: Probe) -> float:
        together = probe.phase == "soak-r2" and Random(probe.probe_id).random() < 0.05
        return 0.5 if together and AGAIN not in probe.params else 1.0

    (one,) = ran(share, fleet=True)
    assert (one.component, one.kind) == ("soak-r2", TOO_MANY)
    assert "pair tests dipped at once: no single part, so none was measured again" in one.text


def test_notes_are_lines_that_accuse_nobody_and_are_not_told_of_a_suspect() -> None:
    course = ran_course(once)
    assert not course.found
    lines = course.lines(accused=set())
    assert f"note: {BAD}: dipped once in 48 probes, not again in 149 more: no suspect" in "\n".join(map(str, lines))
    assert len(course.lines(accused={"gpu003"})) == len(lines) - 1


def test_dips_that_were_all_with_one_partner_may_be_the_partner() -> None:
    """It is well in what was planned for it, so it is asked again and again; then it is found by tests of its own."""
    partner = "gpu012/mlx5_1"

    def share(probe: Probe) -> float:
        return 0.5 if AGAIN in probe.params and partner in ends(probe) else once(probe)

    found = by_part(ran(share))
    assert [one.component for one in found.values() if one.kind == "low"] == [partner]


SMALL = rack_topology(3, parts=2)
PLANNED = [slot.probe for slot in soak(2, SMALL, rounds=24).schedule.slots]
FIRST = next(one for one in PLANNED if {"gpu001", "gpu002"} == set(one.hosts) and one.params["rail"] == 0)
"""Two of three hosts dip once together: both have one partner only."""


def of_three(share: Share) -> dict[str, str]:
    """The kind of finding of each part."""
    run = Rounds(lambda probe: 0.5 if probe.probe_id == FIRST.probe_id else share(probe), SMALL)
    for number in range(1, ROUNDS + 1):
        run.run(soak(number, SMALL, rounds=24))
    found = told(over_time(run.probes, run.results, [one.phase for one in run.plans], SMALL, Samples(300.0, {})))
    return {one.component: one.kind for one in found}


def test_dips_with_one_partner_are_the_part_where_others_were_well_with_it() -> None:
    def only_it(probe: Probe) -> float:
        return 0.5 if probe.params.get(AGAIN) == "gpu001/mlx5_0" and probe.probe_id.endswith("0") else 1.0

    assert of_three(only_it) == {"gpu001/mlx5_0": "dips"}


def test_dips_with_one_partner_are_nobody_where_others_dip_with_it_too() -> None:
    def third(probe: Probe) -> float:
        return 0.5 if AGAIN in probe.params and probe.probe_id.endswith("0") else 1.0

    assert not {"gpu001/mlx5_0", "gpu002/mlx5_0"} & {name for name, kind in of_three(third).items() if kind != OPEN}


def test_a_burn_in_of_few_rounds_names_a_part_that_dips_again() -> None:
    """Further tests need no course: with three rounds there is a suspect, and no FAIL that nobody is named for."""
    found = by_part(ran(again(9), rounds=4))
    assert [(one.component, one.kind) for one in found.values()] == [(BAD, "dips")]
    assert {one.kind for one in ran(once, rounds=5)} == {CLEARED}


def test_a_tenth_of_a_small_round_is_too_many_and_is_said() -> None:
    """Of 64 pair tests 12 dip in one round: fewer than in a large fleet, and no single parts either."""

    def share(probe: Probe) -> float:
        return 0.5 if probe.phase == "soak-r2" and AGAIN not in probe.params and number_of(probe) < 12 else 1.0

    def number_of(probe: Probe) -> int:
        return order.index(probe.probe_id) if probe.probe_id in order else 99

    slots = [slot for slot in soak(2).schedule.slots]
    order = [slot.probe.probe_id for slot in slots if slot.probe.probe_id.endswith((".t5", ".t7"))]
    notes = [one for one in ran(share) if one.kind == TOO_MANY]
    assert [(one.component, one.text.partition(" ")[0]) for one in notes] == [("soak-r2", "12")]


def test_a_few_tests_clear_nobody() -> None:
    """A run that ended after two rounds of 2 h: 36 tests say little of a part that dips once in 50 probes."""
    found = by_part(ran(once, rounds=2, round_s=7_200.0))
    assert {one.kind for one in found.values()} == {OPEN}
    assert found[BAD].text == "dipped once in 8 probes, not again in 36 more: too few to clear it; more rounds do"


def test_further_tests_of_a_phase_that_is_not_told_say_nothing() -> None:
    run = Rounds(again(9))
    run.run(soak(1))
    run.run(soak(2))
    assert told(over_time(run.probes, run.results, [], RACK, Samples(300.0, {}))) == []


def test_of_two_that_dipped_only_together_the_one_that_dips_again_is_named() -> None:
    """By planned tests alone it might be either, and the other comes first by its name."""
    other = "gpu001/mlx5_1"

    def share(probe: Probe) -> float:
        if AGAIN in probe.params:
            number = int(probe.probe_id.rpartition(".n")[2])
            return 0.5 if probe.params[AGAIN] == BAD and number == 20 else 1.0
        return 0.5 if set(ends(probe)) == {BAD, other} else 1.0

    named = [one for one in ran(share) if one.kind == "dips"]
    assert [(one.component, one.rivals) for one in named] == [(BAD, (f"{BAD}:port",))]


def test_a_part_whose_first_dip_is_explained_by_another_is_found_by_its_further_tests() -> None:
    """It dipped with one that is slow from then on, and then with others that are well."""
    other = "gpu001/mlx5_1"

    def share(probe: Probe) -> float:
        if probe.params.get(AGAIN) == BAD:
            return 0.5 if int(probe.probe_id.rpartition(".n")[2]) in (10, 21) else 1.0
        met = set(ends(probe)) == {BAD, other}
        slow = other in ends(probe) and int(probe.phase.removeprefix("soak-r")) > 5
        return 0.5 if AGAIN not in probe.params and (met or slow) else 1.0

    named = {one.component: one.kind for one in ran(share) if one.kind in ("dips", "step", "low")}
    assert named.keys() == {BAD, other}
    assert named[BAD] == "dips"


def test_of_a_host_whose_collectives_dip_the_rnic_is_named_that_further_tests_show() -> None:
    run = Rounds(again(30))
    for number in range(1, ROUNDS + 1):
        run.run(soak(number, RACK, round_s=14_400.0))
    names = list(RACK.hosts)
    for number, plan in enumerate(run.plans):
        for a, b in pairwise(names):
            ring = Probe(f"{plan.phase.name}/{a}+{b}/ring", "tor_all_reduce", plan.phase.name, (a, b), (), 1.0, {})
            low = number % 3 == 0 and "gpu003" in (a, b)
            run.probes.append(ring)
            run.results[ring.probe_id] = measured(ring, 0.5 if low else 1.0, 1000.0 * number)
    phases = [one.phase for one in run.plans]
    found = told(over_time(run.probes, run.results, phases, RACK, Samples(300.0, {})))
    assert [one.component for one in found if one.kind == "dips"] == [BAD]


def test_further_tests_that_dip_are_open_where_nobody_is_named() -> None:
    """No other step of the verdict looks at them: they would FAIL with nobody to blame."""
    course = ran_course(again(60))
    assert (course.found, {row.probe.params.get(AGAIN) for row in course.open}) == ([], {BAD})
    assert all(row.low for row in course.open)
