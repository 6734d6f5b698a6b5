"""Who is left out of later rounds, who comes back, and that a run which goes on counts no round twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fabric.engine.admission import HostHealth
from fabric.engine.left_out import FOLDER, LeftOut
from fabric.errors import HostUnreachable
from fabric.judge.verdict.gate import OwnFails
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan
from fabric.plan.schedule import schedule
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import read_events
from fabric.runs.progress import Progress, progress_of, read_readmissions
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher

WELL, BAD, UNKNOWN = "well", "bad", "unknown"


class Soak:
    """Rounds of a phase in which gpu001 does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory.create(folder, "t", {})
        self.health = HostHealth()
        self.failed = {"gpu001": "1 loopback fail"}
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

    def ask_back(self, host: str = "gpu001") -> None:
        """As ``fabric readmit`` does, and the next phase begins."""
        (self.directory.path / FOLDER).mkdir(exist_ok=True)
        (self.directory.path / FOLDER / host).touch()
        self.left_out.let_in(self.health, [self.failed])

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


@pytest.mark.parametrize("killed", [False, True])
def test_a_readmitted_host_begins_anew(tmp_path: Path, *, killed: bool) -> None:
    """With no bad round, whatever kept it out; its file is gone."""
    soak = Soak(tmp_path)
    soak.round(1, BAD)
    soak.round(2, BAD)
    soak.health.lost(HostUnreachable("gpu001", "connect", "refused"), final=True)
    soak.ask_back()
    if killed:
        soak.go_on()
    assert soak.out() == set()
    assert soak.failed == {}
    assert not [*soak.health.out]
    assert list((soak.directory.path / FOLDER).iterdir()) == []
    soak.round(3, WELL)
    soak.round(4, BAD)
    if killed:
        soak.go_on()
    assert soak.out() == set()
    soak.round(5, BAD)
    assert soak.out() == {"gpu001"}


@pytest.mark.parametrize("killed", [False, True])
def test_a_readmitted_host_that_is_still_bad_is_out_after_its_first_bad_round(tmp_path: Path, *, killed: bool) -> None:
    """Each time that it comes back; a round in which it was not measured forgives nothing."""
    soak = Soak(tmp_path)
    soak.round(1, BAD)
    soak.round(2, BAD)
    for number in (3, 6):
        soak.ask_back()
        soak.round(number, UNKNOWN)
        if killed:
            soak.go_on()
        assert soak.out() == set()
        soak.round(number + 1, BAD)
        assert soak.out() == {"gpu001"}
        assert soak.left_out.excluded(soak.plan(99).phase)["gpu001"].startswith("left out again after")
    soak.directory.flush()
    both = read_readmissions(soak.directory.path / "events.jsonl")
    assert [(one.host, one.at_s, one.reason[:16], bool(one.still_bad)) for one in both.times] == [
        ("gpu001", 200.0, "left out after s", True),
        ("gpu001", 400.0, "left out again a", True),
    ]
    assert both.at_s == {}


def test_what_went_out_before_it_was_readmitted_is_in_after_a_kill(tmp_path: Path) -> None:
    """Its parts, too; what went out afterwards is out."""
    soak = Soak(tmp_path)
    events = soak.directory.events
    for name in ("gpu001/mlx5_3", "gpu002"):
        events.append("out", 1.0, {"component": name, "reason": "errors"})
    soak.health = HostHealth({"gpu001/mlx5_3": "errors"})
    soak.ask_back()
    events.append("out", 2.0, {"component": "gpu001/gpu0", "reason": "errors"})
    soak.directory.flush()
    past = progress_of(list(read_events(soak.directory.path / "events.jsonl")))
    assert set(past.out) == {"gpu002", "gpu001/gpu0"}


def test_only_what_failed_before_the_readmission_is_forgiven(tmp_path: Path) -> None:
    """A gate is asked again when a run goes on."""
    soak = Soak(tmp_path)
    soak.now_s = 50.0
    soak.ask_back()
    early, late = (ProbeResult("a", 1, (), None, "", 0.0, ended_s) for ended_s in (40.0, 60.0))
    assert soak.left_out.still_failed({"gpu001": "x", "gpu002": "y"}, [early]) == {"gpu002": "y"}
    assert soak.left_out.still_failed({"gpu001": "x"}, [early, late]) == {"gpu001": "x"}
