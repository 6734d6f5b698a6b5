"""The shipped experiment with 32 rings at once: with adaptive routing on they are alike, with it off they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.judge.changes.ratio import judge_ratio
from fabric.judge.normal.keys import samples
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedRatio, PhaseRef
from tests.report.shown import run_of


@pytest.mark.slow
def test_rings_are_alike_with_adaptive_routing_and_not_without(tmp_path: Path) -> None:
    """What the scenario expects of on holds; the same expected of off does not, for it is not true of any fabric."""
    run = reopened(run_of(tmp_path, scenario="ring-contention", hosts=None))
    scenario = run.judged.scenario
    assert [found.outcome for found in run.judged.verdict.expectations] == [Outcome.PASS] * 4
    found = list(samples(run.probes, run.results))
    alone = [one for one in scenario.expect if isinstance(one, ExpectedRatio) and one.over is None]
    assert [one.statistic for one in alone] == ["cv", "slowest/median"]
    for one in alone:
        off = replace(one, of=PhaseRef("rings", (("adaptive_routing", "off"),)))
        assert judge_ratio(off, scenario.phases, found, []).outcome is Outcome.FAIL
