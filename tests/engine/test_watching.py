"""Sampling beside the probes: on simulated hosts, some of which go away."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.watching import Watch
from fabric.hosts.mock import MockExecutor
from fabric.model.command import Command
from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.model.sampling import CounterReading, Samples, SampleSettings
from fabric.model.scenario import JudgeSettings, Scenario
from fabric.ports import Ended
from fabric.runs.samples import read_samples
from fabric.sim.world import World

RACK = rack_topology(2, parts=2)


@pytest.fixture
def mock() -> Iterator[MockExecutor]:
    """Two hosts; the second goes away after 100 s, for 200 s."""
    gone, hot = TimedFault(100.0, 200.0, Fault("gpu002", "broken")), TimedFault(0.0, inf, Fault("gpu001/mlx5_0", "hot"))
    executor = MockExecutor(World(RACK, MockSettings(noise_cv=0.0, timed_faults=(gone, hot)), seed=1))
    yield executor
    executor.close()


def watched(mock: MockExecutor, folder: Path, until_s: float, settings: SampleSettings | None = None) -> Samples:
    """A host sleeps for so long while both are sampled."""
    watch = Watch(mock, folder, settings or SampleSettings(every_s=10.0, optics=True))
    watch.begin(list(RACK.hosts.values()))
    ticket = watch.start(Command("gpu001", ("sleep", str(until_s)), until_s + 60))
    found = []
    while not found and watch.now() < until_s + 60:
        found = list(watch.wait(until_s + 60))
    assert [(type(one), one.ticket) for one in found] == [(Ended, ticket)]  # and nothing that we started
    watch.end()
    return read_samples(folder)


def test_counters_temperatures_clocks_and_light_are_sampled(mock: MockExecutor, tmp_path: Path) -> None:
    """Of every part, by its name."""
    samples = watched(mock, tmp_path, 60.0)
    names = {(reading.part, reading.name) for reading in samples.courses if reading.host == "gpu001"}
    wanted = (
        "symbol_error",
        "link_downed",
        "out_of_sequence",
        "port_xmit_wait",
        "asic_c",
        "module_c",
        "rx_dbm",
        "tx_dbm",
    )
    assert names >= {(f"mlx5_{number}", name) for number in (0, 1) for name in wanted}
    assert names >= {(f"gpu{number}", name) for number in (0, 1) for name in ("gpu_c", "sm_mhz")}


def test_a_host_that_goes_away_has_a_gap_and_comes_back(mock: MockExecutor, tmp_path: Path) -> None:
    """The run does not notice; what is not known meanwhile is not 0."""
    samples = watched(mock, tmp_path, 600.0)
    course = samples.courses[CounterReading("gpu002", "mlx5_0", "link_error_recovery")]
    assert [course.value_at(at_s) for at_s in (50.0, 200.0, 500.0)] == [0, None, 0]


def test_what_only_wavers_is_not_written_again(mock: MockExecutor, tmp_path: Path) -> None:
    """A temperature in balance is one line, not sixty."""
    samples = watched(mock, tmp_path, 600.0)
    assert len(samples.courses[CounterReading("gpu001", "mlx5_1", "module_c")].values) == 1


def scenario(settings: SampleSettings | None) -> Scenario:
    """One that is never run."""
    return Scenario("s", "", "s.yaml", "i.yaml", ("gpu001",), (), JudgeSettings(), sample=settings)
