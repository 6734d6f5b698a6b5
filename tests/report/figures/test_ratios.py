"""Expectations, what failures mean for a job, a part over many runs."""

from __future__ import annotations

import pandas as pd
import pytest

from fabric.judge.training import Observed, best_interval_s, expected_ettr, mttf_s, training_impact
from fabric.report.figures import expectations, history, scaling, training
from tests.report.figures.seen import texts

COLUMNS = ["text", "outcome", "value", "low", "high", "at_least", "at_most"]
NONE = float("nan")


def expected(*rows: tuple[object, ...]) -> pd.DataFrame:
    """Expectations as the figure takes them."""
    return pd.DataFrame(rows, columns=COLUMNS)


def test_half_and_double_are_alike_far_from_one() -> None:
    drawn = expectations(expected(("a", "pass", 0.5, 0.49, 0.51, NONE, 0.8), ("b", "fail", 2.0, 1.9, 2.1, 3.0, NONE)))
    assert drawn is not None
    assert drawn.axes[0].get_xscale() == "log"
    assert {"a", "b", "0.5", "2"} <= texts(drawn)


def test_without_an_interval_there_is_no_picture() -> None:
    assert expectations(expected(("a", "inconclusive", NONE, NONE, NONE, 0.9, NONE))) is None
    assert expectations(expected()) is None


@pytest.mark.parametrize("gpus", [64, 1024])
def test_the_curve_is_that_of_the_judge(gpus: int) -> None:
    """At another size of the job than the one that was measured."""
    mttf = mttf_s(gpus / 8, 0.02)
    drawn = training(gpus, mttf)
    line = drawn.axes[1].lines[0]
    place = 30
    there = mttf * gpus / line.get_xdata()[place]
    every = best_interval_s(there, 300.0)
    assert line.get_ydata()[place] == pytest.approx(expected_ettr(there, restart_s=300.0, every_s=every, write_s=300.0))
    impact = training_impact(gpus, Observed(2, 100.0))
    assert impact.ettr == pytest.approx(
        float(training(gpus, impact.mttf_s or 0.0).axes[1].lines[1].get_ydata()[0]), abs=1e-3
    )


def test_a_bound_is_said_to_be_one() -> None:
    assert any("at least" in one for one in texts(training(64, 3600.0, bound=True)))
    assert not any("at least" in one for one in texts(training(64, 3600.0)))


def test_the_history_of_a_part_marks_the_runs_that_suspected_it() -> None:
    runs = pd.DataFrame(
        {"run": ["r1", "r2"], "outcome": ["pass", "fail"], "share": [1.0, 0.6], "suspected": [False, True]}
    )
    drawn = history(runs, "gpu001/mlx5_0")
    assert drawn is not None
    assert {"r1", "r2", "gpu001/mlx5_0"} <= texts(drawn)
    assert history(runs.assign(share=NONE), "gpu001/mlx5_0") is None


def test_a_curve_over_hosts_needs_two_numbers() -> None:
    rows = [("ring", 2, 390.0, 400.0), ("ring", 4, 380.0, 400.0), ("ring", 8, None, 400.0), ("one", 2, 1.0, 2.0)]
    points = pd.DataFrame(rows, columns=["kind", "hosts", "gbps", "bound_gbps"]).astype({"gbps": float})
    drawn = scaling(points)
    assert drawn is not None
    assert [list(line.get_xdata()) for line in drawn.axes[0].lines] == [[2, 4], [2, 4]]
    assert scaling(points[:1]) is None
