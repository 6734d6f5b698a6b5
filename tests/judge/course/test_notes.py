"""Who is not cleared yet is told, and accused of nothing."""

from __future__ import annotations

from fabric.judge.course.findings import OPEN, CourseFinding, with_over_time
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect, Verdict

NOTE = CourseFinding("gpu001/mlx5_0", OPEN, "dipped once in 44 probes, not again in 36 more: too few to clear it")


def test_a_note_is_a_line_and_no_suspect() -> None:
    verdict = with_over_time(Verdict(Outcome.PASS, (), (), (), ()), [NOTE])
    assert (verdict.outcome, verdict.suspects) == (Outcome.PASS, ())
    assert verdict.reasons[0].startswith("note: gpu001/mlx5_0: dipped once in 44 probes")


def test_a_part_of_a_suspected_host_is_not_told() -> None:
    suspect = Suspect("gpu001", "host", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",))
    known = Verdict(Outcome.FAIL, (), (suspect,), (), ())
    assert with_over_time(known, [NOTE]) == known
