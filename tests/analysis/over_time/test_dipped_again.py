"""The follow-up ``dips``: what it asks for, when it stops, and what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.analysis.over_time.dipped_again import ENOUGH_DIPS, FIRST_TESTS, MOST_TESTS, DippedAgain, dips_lines
from fabric.model.follow_up import AGAIN
from fabric.model.probe import Probe
from fabric.model.scenario import LocaliseSettings, PairwiseSpec
from fabric.plan.plan import Plan
from tests.analysis.over_time.dipping_rack import Rounds, ends, parts_of, soak, well

BAD = "gpu003/mlx5_1"
A_ROUND = 36  # 3 % of four hours, in tests of 12 s


def dips_once(probe: Probe) -> float:
    """In one planned probe of the first round, and never again."""
    return 0.5 if probe.phase == "soak-r1" and AGAIN not in probe.params and _first(probe) else 1.0


def _first(probe: Probe) -> bool:
    return BAD in ends(probe) and probe.probe_id.endswith(".t1")


def dips_again(probe: Probe) -> float:
    """Then in every tenth of its further tests."""
    again = probe.params.get(AGAIN) == BAD and probe.probe_id.endswith("0")
    return 0.5 if again else dips_once(probe)


def test_a_round_in_which_all_is_well_is_followed_by_nothing() -> None:
    assert Rounds(well).run(soak(1)) == []


def test_a_part_that_dipped_once_is_measured_until_it_is_cleared_and_no_longer() -> None:
    rounds = Rounds(dips_once)
    added = [rounds.run(soak(number)) for number in range(1, 7)]
    own = [sum(probe.params[AGAIN] == BAD for probe in of_round) for of_round in added]
    assert own == [A_ROUND, A_ROUND, A_ROUND, FIRST_TESTS - 3 * A_ROUND, 0, 0]
    assert sum(own) == FIRST_TESTS
    assert len(parts_of(added[0])) == 2


def test_partners_are_well_and_change_and_who_sends_changes() -> None:
    added = [one for one in Rounds(dips_once).run(soak(1)) if one.params[AGAIN] == BAD]
    accused = parts_of(added)
    partners = {next(end for end in ends(one) if end != BAD) for one in added}
    assert partners.isdisjoint(accused)
    assert len(partners) == 14
    assert {one.hosts[0] == "gpu003" for one in added} == {True, False}
    assert len({one.probe_id for one in added}) == len(added)


def test_a_part_that_dips_again_gets_more_tests_until_it_is_sure() -> None:
    rounds = Rounds(dips_again)
    own = [one for number in range(1, 8) for one in rounds.run(soak(number)) if one.params[AGAIN] == BAD]
    low = [one for one in own if one.probe_id.endswith("0")]
    assert len(low) >= ENOUGH_DIPS
    assert len(own) <= MOST_TESTS
    assert not [one for one in rounds.run(soak(8)) if one.params[AGAIN] == BAD]


def test_who_dips_again_but_seldom_is_not_measured_for_ever() -> None:
    def seldom(probe: Probe) -> float:
        again = probe.params.get(AGAIN) == BAD and probe.phase == "soak-r1" and probe.probe_id.endswith(".n1")
        return 0.5 if again else dips_once(probe)

    rounds = Rounds(seldom)
    own = sum(one.params[AGAIN] == BAD for number in range(1, 12) for one in rounds.run(soak(number)))
    assert own == MOST_TESTS


def test_what_is_spent_follows_the_planned_time_of_the_round() -> None:
    limits = DippedAgain(Rounds(well).topology).limits(soak(1))
    assert limits is not None
    assert limits.budget_s == pytest.approx(432.0)
    assert len(Rounds(dips_once).run(soak(1, round_s=400.0))) == 2 * 1


@pytest.mark.parametrize(
    "change",
    [{"fills": None}, {"localise": LocaliseSettings()}, {"probes": (PairwiseSpec(only=("gpu001",)),)}, {"probes": ()}],
)
def test_phases_that_do_not_repeat_pairs_of_all_hosts_have_no_follow_up(change: dict[str, object]) -> None:
    plan = soak(1)
    plan = replace(plan, phase=replace(plan.phase, **change))  # type: ignore[arg-type]
    assert DippedAgain(Rounds(well).topology).limits(plan) is None
    assert dips_lines(Plan((plan,))) == ()


def test_rounds_in_whose_share_no_test_fits_have_no_follow_up() -> None:
    assert DippedAgain(Rounds(well).topology).limits(soak(1, round_s=399.0)) is None
    assert DippedAgain(Rounds(well).topology).limits(soak(1, round_s=400.0)) is not None


def test_a_run_that_goes_on_asks_for_what_it_would_have_asked_for() -> None:
    """Whoever is told of the rounds that are over knows as much as who ran them."""
    whole, cut = Rounds(dips_once), Rounds(dips_once)
    for number in (1, 2):
        whole.run(soak(number))
        cut.run(soak(number))
    later = DippedAgain(cut.topology)
    for plan in cut.plans:
        of_phase = [one for one in cut.probes if one.phase == plan.phase.name]
        results = [cut.results[one.probe_id] for one in of_phase]
        later.ended(plan, results, [one for one in of_phase if AGAIN in one.params])
    third = whole.run(soak(3))
    assert parts_of(third) >= {BAD}
    assert cut.run(soak(3), later) == third


def test_the_plan_says_how_much_may_be_added() -> None:
    (line,) = dips_lines(Plan((soak(1), soak(2))))
    assert f"up to {A_ROUND} pair tests each, 7 min 12 s a round more at most" in line
