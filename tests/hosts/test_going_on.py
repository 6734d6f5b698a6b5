"""A run that goes on keeps its clock, whatever the machine's clock reads."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measured_rack import rack_topology
from fabric.hosts.mock import MockExecutor
from fabric.hosts.process import ProcessExecutor
from fabric.model.command import Command
from fabric.model.inventory import MockSettings
from fabric.ports import Source, run_once
from fabric.sim.world import World


def test_it_reads_what_the_run_had_reached_and_what_happens_is_told_in_its_time() -> None:
    executor = ProcessExecutor()
    try:
        run_once(executor, Command("here", ("true",), 10.0))  # its agent knows the clock of before
        executor.go_on(500.0)
        assert 500.0 <= executor.now() < 520.0
        begun_s = executor.now()
        executor.wait(begun_s + 0.2)
        assert begun_s + 0.2 <= executor.now()
        result = run_once(executor, Command("here", ("echo", "present"), 10.0))
        assert begun_s <= result.started_s <= result.ended_s <= executor.now() < 600.0
    finally:
        executor.close()


def test_samples_are_told_in_its_time(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("7\n")
    executor = ProcessExecutor()
    try:
        run_once(executor, Command("here", ("true",), 10.0))
        executor.go_on(500.0)
        executor.start_sampling("here", (Source(path=str(tmp_path / "counter")),), 0.05)
        found: list[float] = []
        while not found and executor.now() < 600.0:
            executor.wait(executor.now() + 1.0)
            found = [at_s for sampled in executor.samples() for at_s in sampled.at_s]
        assert found
        assert all(500.0 <= at_s <= executor.now() for at_s in found)
    finally:
        executor.close()


def test_a_deadline_is_kept_in_its_time() -> None:
    executor = ProcessExecutor(agents=False)
    try:
        executor.go_on(5.0)
        ticket = executor.start(Command("here", ("sleep", "60"), 0.3))
        happened = []
        while not happened and executor.now() < 60.0:
            happened = [one for one in executor.wait(executor.now() + 1.0) if one.ticket == ticket]
        assert happened
    finally:
        executor.close()


def test_a_simulated_rack_lives_on_to_that_moment() -> None:
    executor = MockExecutor(World(rack_topology(1), MockSettings(noise_cv=0.0), seed=1))
    executor.go_on(500.0)
    assert executor.now() >= 500.0
