"""The file STOP: seen once, seen for good, and counted like one Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from fabric.engine.interruption import LOOK_S, STOP, Interruption, StopFile
from fabric.runs.events import read_events
from fabric.runs.run_directory import RunDirectory


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


def made(folder: Path) -> tuple[StopFile, RunDirectory, Clock]:
    """Of a run that has just begun."""
    clock, directory = Clock(), RunDirectory.create(folder, "drill", {})
    return StopFile(directory, clock), directory, clock


def test_it_is_seen_at_the_next_look(tmp_path: Path) -> None:
    stop, directory, clock = made(tmp_path)
    assert not stop.look()
    (directory.path / STOP).touch()
    clock.now_s = stop.next_s
    assert stop.look()
    assert clock.now_s <= 100.0 + LOOK_S


def test_the_history_says_once_which_file_it_was(tmp_path: Path) -> None:
    stop, directory, clock = made(tmp_path)
    (directory.path / STOP).touch()
    for _ in range(3):
        stop.look()
        clock.now_s += LOOK_S
    directory.close()
    (event,) = read_events(directory.path / "events.jsonl")
    assert event["reason"] == f"the file {directory.path / STOP} is there"


def test_it_counts_as_one_request_and_a_signal_after_it_as_the_second(tmp_path: Path) -> None:
    stop, directory, _ = made(tmp_path)
    interruption = Interruption(stop)
    (directory.path / STOP).touch()
    assert interruption.times == 1
    interruption.signals += 1
    assert interruption.times == 2
