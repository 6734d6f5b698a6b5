"""What to do next about a change that was not made as asked."""

from __future__ import annotations

from fabric.model.change import Change, ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.scenario import JudgeSettings, Scenario
from fabric.model.verdict import JudgedRun, Verdict
from fabric.report.changes import after_change
from tests.changes.asked import port_flap

SCENARIO = Scenario("s", "", "s.yaml", "i.yaml", ("gpu001",), (), JudgeSettings())
FLAP = Change("drill/flap", "drill", "gpu001/mlx5_0", "port", port_flap("gpu001/mlx5_0", down=1.0, at=20.0))


def step(state: str, reason: str, *, complete: bool = True) -> str:
    """What is advised."""
    judged = JudgedRun(
        SCENARIO, Verdict(Outcome.PASS, (), (), (), ()), "results/r", "r", 1.0, "ssh", (), "", complete=complete
    )
    return after_change(ChangeResult(FLAP, state, reason), judged)


def test_a_drill_that_was_cut_short_is_resumed_and_not_mended() -> None:
    said = step("failed", "nothing was altered: the phase ended before its time came", complete=False)
    assert "fabric resume results/r" in said
    assert "mend it" not in said


def test_a_flap_that_was_cut_off_is_resumed() -> None:
    assert "fabric resume results/r" in step("reverted", "cut off after 0 of 1 cycles", complete=False)


def test_in_a_run_that_is_complete_nothing_is_left_to_resume() -> None:
    said = step("reverted", "cut off after 0 of 1 cycles")
    assert "fabric resume" not in said
    assert "let the change begin earlier" in said


def test_what_went_wrong_is_to_be_mended() -> None:
    assert "mend it" in step("failed", "gpu001: mlxreg: permission denied")


def test_a_change_that_was_taken_back_in_order_needs_nothing() -> None:
    assert step("reverted", "") == ""
