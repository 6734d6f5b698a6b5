"""Who is left out of later rounds, and that a run which goes on counts no round twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fabric.engine.admission import LeftOut
from fabric.judge.verdict.during_run import OwnFails
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, schedule
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import Progress, progress_of, read_events
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher

WELL, BAD, UNKNOWN = "well", "bad", "unknown"


class Soak:
    """Rounds of a phase in which gpu001 does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory.create(folder, "t", {})
        self.now_s = 0.0
        self.watcher = Watcher()
        self.begin(Progress())

    def begin(self, past: Progress) -> None:
        """From what is known of the run."""
        self.left_out = LeftOut(
            self._own, directory=self.directory, clock=lambda: self.now_s, observer=self.watcher, progress=past
        )

    def go_on(self) -> None:
        """As after a kill: from what is on disk."""
        self.directory.flush()
        self.begin(progress_of(list(read_events(self.directory.path / "events.jsonl"))))

    def round(self, number: int, how: str, *, stop: bool = True) -> None:
        """One round, judged."""
        self.now_s += 100.0
        self._how = how
        self.left_out.judge(self.plan(number, stop=stop), ())

    def plan(self, number: int, *, stop: bool = True) -> PhasePlan:
        """That of a round."""
        phase = Phase(f"soak-r{number}", (LoopbackSpec(),), label="soak", stop_host_on="fail" if stop else None)
        return PhasePlan(phase, schedule([]), ())

    def out(self) -> set[str]:
        """Who takes no part in the next round."""
        return set(self.left_out.excluded(self.plan(99).phase))

    def _own(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> OwnFails:
        failed = {"gpu001": "1 loopback fail"} if self._how == BAD else {}
        return OwnFails(failed, frozenset({"gpu001"} if self._how == WELL else ()))


@pytest.mark.parametrize(
    ("rounds", "out"),
    [
        ([BAD], set()),
        ([BAD, BAD], {"gpu001"}),
        ([BAD, WELL, BAD], set()),
        ([BAD, UNKNOWN, BAD], {"gpu001"}),
        ([BAD, BAD, UNKNOWN, UNKNOWN], {"gpu001"}),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
def test_two_bad_rounds_without_a_good_one_between_leave_a_host_out(
    tmp_path: Path, rounds: list[str], out: set[str], *, killed: bool
) -> None:
    """And after a kill between any two of them."""
    soak = Soak(tmp_path)
    for number, how in enumerate(rounds, start=1):
        soak.round(number, how)
        if killed:
            soak.go_on()
    assert soak.out() == out


def test_a_round_that_is_judged_again_after_a_kill_counts_once(tmp_path: Path) -> None:
    """It died after it had been judged, and before the phase was noted as ended."""
    soak = Soak(tmp_path)
    soak.round(1, BAD)
    soak.go_on()
    soak.round(1, BAD)
    assert soak.out() == set()
