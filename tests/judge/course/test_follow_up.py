"""The follow-up ``dips``: what it asks for, when it stops, and what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.course.follow_up import ENOUGH_DIPS, FIRST_TESTS, MOST_TESTS, DippedAgain, dips_lines
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.scenario import LocaliseSettings
from fabric.plan import Plan
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.dipping_rack import Rounds, ends, measured, parts_of, soak, well

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
    assert own == [*[A_ROUND] * 4, FIRST_TESTS - 4 * A_ROUND, 0]
    assert sum(own) == FIRST_TESTS
    assert len(parts_of(added[0])) == 2


def test_who_dips_late_gets_the_time_that_earlier_rounds_did_not_need() -> None:
    """A burn-in that ends with a dip has time to say what it was."""

    def dips_last(probe: Probe) -> float:
        last = probe.phase == "soak-r6" and AGAIN not in probe.params and BAD in ends(probe)
        return 0.5 if last and probe.probe_id.endswith(".t21") else 1.0

    rounds = Rounds(dips_last)
    added = [rounds.run(soak(number)) for number in range(1, 7)]
    own = [sum(probe.params[AGAIN] == BAD for probe in of_round) for of_round in added]
    assert own == [0, 0, 0, 0, 0, FIRST_TESTS]


def test_rounds_too_short_for_a_test_have_one_after_a_while() -> None:
    """3 % of three minutes is half of what a test takes."""
    rounds = Rounds(dips_once)
    own = [sum(one.params[AGAIN] == BAD for one in rounds.run(soak(n, round_s=200.0))) for n in range(1, 6)]
    assert own == [0, 1, 0, 1, 0]


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


def test_a_first_round_in_whose_share_no_test_fits_has_no_follow_up() -> None:
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
    assert "after the round, for 3% of the time of the rounds so far (14 min 24 s in all) at most" in line


def test_a_part_of_a_host_that_is_out_is_not_asked_for() -> None:
    """Its tests would be SKIPPED, hundreds of them, and tell nothing."""
    rounds = Rounds(dips_once)
    rounds.run(soak(1))
    assert BAD not in parts_of(rounds.run(soak(2), out="gpu003"))
    assert BAD in parts_of(rounds.run(soak(3)))


def test_a_part_that_failed_since_is_not_asked_for() -> None:
    def fails_later(probe: Probe) -> float | None:
        return None if probe.phase == "soak-r2" and BAD in ends(probe) else dips_once(probe)

    rounds = Rounds(fails_later)
    assert BAD in parts_of(rounds.run(soak(1)))
    assert BAD not in parts_of(rounds.run(soak(2)))


def test_what_was_not_measured_is_no_test() -> None:
    """Else a part that nobody could measure would be cleared by it."""
    follow_up, plan = DippedAgain(Rounds(well).topology), soak(1)
    planned = [slot.probe for slot in plan.schedule.slots]
    results = [measured(probe, dips_once(probe)) for probe in planned]
    first = list(follow_up.more(plan, results, ()))
    errors = [ProbeResult(one.probe_id, 1, (), Outcome.ERROR, "no such file", 0.0, 1.0) for one in first]
    assert not follow_up.more(plan, [*results, *errors], first)
    follow_up.ended(plan, [*results, *errors], first)
    next_round = [measured(slot.probe, 1.0) for slot in soak(2).schedule.slots]
    assert len(parts_of(list(follow_up.more(soak(2), next_round, ())))) == 2


def test_a_partner_that_does_not_answer_is_not_asked_again() -> None:
    follow_up, plan = DippedAgain(Rounds(well).topology), soak(1)
    planned = [slot.probe for slot in plan.schedule.slots]
    results = [measured(probe, dips_once(probe)) for probe in planned]
    first = list(follow_up.more(plan, results, ()))
    lost = next(one for one in first if one.params[AGAIN] == BAD)
    silent = next(end for end in ends(lost) if end != BAD)
    answers = [
        ProbeResult(one.probe_id, 1, (), Outcome.ERROR, "", 0.0, 1.0) if one is lost else measured(one, 1.0)
        for one in first
    ]
    more = follow_up.more(plan, [*results, *answers], first)
    assert BAD in parts_of(list(more))
    assert not [one for one in more if silent in ends(one)]


def _planned(number: int) -> list[Probe]:
    return [slot.probe for slot in soak(number).schedule.slots]


def test_a_part_that_was_cleared_is_a_partner_again() -> None:
    """In small fleets partners would run out."""
    rounds = Rounds(dips_once)
    for number in range(1, 6):
        rounds.run(soak(number))
    other = next(probe for probe in _planned(6) if "gpu010/mlx5_1" in ends(probe) and BAD not in ends(probe))
    rounds.share = lambda probe: 0.5 if probe.probe_id == other.probe_id else 1.0
    assert BAD in {end for probe in rounds.run(soak(6)) for end in ends(probe)}


def test_no_more_than_so_many_parts_are_begun_after_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is settled makes no room for another one."""
    monkeypatch.setattr("fabric.judge.course.follow_up.MOST_PARTS", 1)
    monkeypatch.setattr("fabric.judge.course.follow_up.FIRST_TESTS", 10)
    assert len(parts_of(Rounds(dips_once).run(soak(1)))) == 1
