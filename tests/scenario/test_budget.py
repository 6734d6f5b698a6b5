"""Whole runs within a budget on the mock: what is planned is run, and whoever looks later knows the same plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.app.compare import compare
from fabric.app.prepare import Given, prepare
from fabric.engine.observer import Observer
from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun
from fabric.plan.plan import Plan
from fabric.runs.events import read_events
from tests import builders
from tests.places import INVENTORY
from tests.runs.small_run import begun_after, finished
from tests.scenario.test_left_out import Acts

SCENARIO = """\
name: cut
inventory: {inventory}
hosts: gpu[001-004]
phases:
  - name: check
    probes: [all_to_all: {{sizes: [1G]}}, loopback]
  - name: altered
    needs: [check]
    changes: [{{ber: {{links: gpu001/mlx5_0, effective: 1e-6, direction: up}}}}]
    probes: [{{tor_all_reduce: {{sizes: [1G], repeat: 6}}}}]
  - name: soak
    needs: [altered]
    for: 90s
    probes: [pairwise: {{rounds: 2}}, all_to_all: {{sizes: [8G], halves: false}}]
"""
BUDGET_S = 270.0
"""Two of four rounds of the soak fit, and not the changes."""


class Runs:
    """The scenario in a folder of its own, and what is run of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "cut.yaml"
        self.file.write_text(SCENARIO.format(inventory=INVENTORY / "pod-64.yaml"))
        self.asked = prepare(Given(self.file, budget_s=BUDGET_S))

    def run(self, observer: Observer) -> JudgedRun:
        """What is asked, on the mock."""
        return builders.on_mock(self.asked, self._folder / "results", observer=observer)

    @property
    def newest(self) -> Path:
        """The directory of the last run."""
        return (self._folder / "results" / "cut" / "latest").resolve()


def probes_of(plan: Plan) -> set[str]:
    """Ids of all that it plans."""
    return {probe.probe_id for probe in plan.planned}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Nothing is run yet."""
    return Runs(tmp_path_factory.mktemp("budget"))


@pytest.fixture(scope="module")
def whole(runs: Runs) -> JudgedRun:
    """One that was not interrupted."""
    return runs.run(Acts())


def test_what_was_left_out_is_no_pass(whole: JudgedRun) -> None:
    assert whole.verdict.outcome is Outcome.SKIPPED
    assert [text for text in whole.verdict.reasons if not text.startswith("note: ")] == [
        "SKIPPED: altered: 24 of 24 probes left out: no more fits into the budget",
        "SKIPPED: soak: 72 of 144 probes left out: no more fits into the budget",
        "links: none of the 160 cables was looked at from both ends",
    ]


def test_one_that_was_interrupted_goes_on_as_it_was_asked(runs: Runs, whole: JudgedRun) -> None:
    """Without force: the files say the same, and so does the budget. Then it is as good as its own past."""
    with pytest.raises(Exception, match="interrupted"):
        runs.run(Acts("soak-r2", lambda: (runs.newest / "STOP").touch()))
    run = runs.newest
    assert str(run) != whole.path
    seen = len(list(read_events(run / "events.jsonl")))
    judged = builders.gone_on(run)
    assert {name.split("/")[0] for name in begun_after(run, seen)} == {"soak-r2"}
    assert set(finished(run)) == probes_of(runs.asked.plan)
    assert judged.verdict.reasons == whole.verdict.reasons
    found = compare(Path(whole.path), run)
    assert found.comparison.only_first == found.comparison.only_second == ()
    assert found.comparison.common == runs.asked.plan.probes
