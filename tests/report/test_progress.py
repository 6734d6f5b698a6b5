"""What somebody who watches a run is shown."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, schedule
from fabric.report.progress import ConsoleProgress, planning


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and when somebody has written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        """It is one."""
        return True

    def write(self, text: str) -> int:
        """Keep it."""
        done = super().write(text)
        self.written.set()
        return done


def watched(planned: int, results: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[float, float | None]:
    """Done and total on the bar after these results of a phase with so many planned probes."""
    probes = [Probe(f"p{number}", "none", "one", ("h",), (), 1.0, {}) for number in range(planned)]
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with ConsoleProgress() as progress:
        progress.phase_started(PhasePlan(Phase("one", (), ()), schedule(probes), ()))
        for name in results:
            progress.probe_finished(ProbeResult(name, 1, (), None, "", 0.0, 1.0))
        assert progress._bar is not None
        (task,) = progress._bar.tasks
        return task.completed, task.total


def test_a_probe_that_was_not_planned_is_one_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(2, ["p0", "p1"], monkeypatch) == (2, 2)
    assert watched(2, ["p0", "p1", "instead of p1"], monkeypatch) == (3, 3)


def test_planning_that_takes_long_is_told_of_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with planning(after_s=0.0):
        assert terminal.written.wait(10)
    assert terminal.getvalue() == "planning ...\n"


def test_planning_that_is_quick_or_not_on_a_terminal_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with planning(after_s=3600.0):
        pass
    monkeypatch.setattr(sys, "stderr", file)
    with planning(after_s=0.0):
        assert threading.active_count() >= 1
    assert (terminal.getvalue(), file.getvalue()) == ("", "")
    assert [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)] == []


def test_hosts_that_cannot_be_reached_for_one_reason_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"gpu{number:03}" for number in range(1, 9)]
    with ConsoleProgress(addresses={name: f"{name}.mgmt" for name in names}) as progress:
        for name in names:
            progress.probe_finished(ProbeResult("p", 1, (), None, "", 0.0, 1.0))
            progress.out_of_run(name, f"{name}: connecting: name does not resolve: {name}.mgmt")
    assert capsys.readouterr().err.splitlines() == [
        "gpu001 is out of the run: connecting: name does not resolve: gpu001.mgmt",
        "gpu[002-008] (7) are out of the run for the same reason as gpu001",
    ]
