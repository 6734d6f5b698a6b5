"""Who dips too seldom to be named is told, and accused of nothing."""

from __future__ import annotations

from fabric.judge.course.findings import FEW, CourseFinding, with_over_time
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect, Verdict
from tests.judge.course.test_over_time import bad, measured

NOTE = CourseFinding("gpu001/mlx5_0", FEW, "low in 2 of 44 probes, to 50% of what is normal")


def test_a_note_is_a_line_and_no_suspect() -> None:
    verdict = with_over_time(Verdict(Outcome.PASS, (), (), (), ()), [NOTE])
    assert (verdict.outcome, verdict.suspects) == (Outcome.PASS, ())
    assert verdict.reasons[0].startswith("note: gpu001/mlx5_0: low in 2 of 44 probes")
    assert "too few to tell" in verdict.reasons[0]


def test_a_part_of_a_suspected_host_is_not_told() -> None:
    suspect = Suspect("gpu001", "host", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",))
    known = Verdict(Outcome.FAIL, (), (suspect,), (), ())
    assert with_over_time(known, [NOTE]) == known


def test_shallow_dips_that_two_probes_show_are_told_and_accuse_nobody() -> None:
    found = measured(3, bad("gpu003/mlx5_1", lambda number: 0.93 if number in (7, 50) else 1.0))
    assert {one.kind for one in found} <= {FEW}
