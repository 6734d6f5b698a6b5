"""What further tests say of the part that they are run for, and of its partners."""

from __future__ import annotations

from fabric.judge.course.dips.tests import answers_of, counted, doubtful_partners, partner_of, unanswered_by
from fabric.judge.course.dips.tests import tests as asked_for
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.dipping_rack import RACK, measured, refused

BAD = "gpu003/mlx5_1"
WELL = [f"gpu{number:03}/mlx5_1" for number in (5, 6, 7)]


def ran(count: int, partners: int = 3) -> list[Probe]:
    """So many tests of one part."""
    spec = PairwiseSpec(duration_s=10)
    return asked_for(spec, "soak-r1", {BAD: count}, done={}, well=WELL[:partners], topology=RACK)


def answers(probes: list[Probe], low: set[int]) -> dict[str, ProbeResult]:
    """Those of these numbers are at half."""
    return {one.probe_id: measured(one, 0.5 if number in low else 1.0) for number, one in enumerate(probes)}


def test_tests_and_dips_of_a_part_are_counted() -> None:
    probes = ran(12)
    assert answers_of(probes, answers(probes, {3, 5}), RACK) == {BAD: (12, 2)}
    assert counted(probes) == {BAD: 12}


def test_a_transport_that_gives_up_is_a_dip_and_an_error_of_ours_is_no_test() -> None:
    probes = ran(12)
    given_up = {probes[1].probe_id: measured(probes[1], None)}
    error = {probes[2].probe_id: ProbeResult(probes[2].probe_id, 1, (), Outcome.ERROR, "no such file", 0.0, 1.0)}
    skipped = {probes[4].probe_id: refused(probes[4])}
    assert answers_of(probes, answers(probes, set()) | given_up | error | skipped, RACK) == {BAD: (10, 1)}


def test_a_partner_with_which_alone_it_dips_is_doubtful() -> None:
    probes = ran(12)
    with_first = {number for number, one in enumerate(probes) if partner_of(one) == WELL[0]}
    others = sorted(set(range(12)) - with_first)
    assert doubtful_partners(probes, answers(probes, with_first), RACK) == [WELL[0]]
    assert doubtful_partners(probes, answers(probes, {min(with_first)}), RACK) == [], "once may be chance"
    assert doubtful_partners(probes, answers(probes, {*with_first, others[0]}), RACK) == [], "it dips with others, too"


def test_an_only_partner_is_told_by_what_others_measure_with_it() -> None:
    probes = ran(12, partners=1)
    assert doubtful_partners(probes, answers(probes, {1, 2}), RACK) == []


def test_who_did_not_answer_is_known() -> None:
    probes = ran(6)
    found = answers(probes, {2}) | {probes[1].probe_id: refused(probes[1])}
    assert unanswered_by(probes, found) == ({BAD: 1}, {partner_of(probes[1])})
