"""Sampling on simulated hosts, and how long a silent command is waited for there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Fault, MockSettings
from fabric.ports import Lost, Sampled, Source
from fabric.sim.world import World

COUNTER = "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data"


@pytest.fixture
def mock() -> Iterator[MockExecutor]:
    """Two hosts, of which one is dead."""
    world = World(rack_topology(2, parts=2), MockSettings(faults=(Fault("gpu002", "broken"),), noise_cv=0.0), seed=1)
    executor = MockExecutor(world)
    yield executor
    executor.close()


def sampled(mock: MockExecutor, rows: int) -> list[Sampled]:
    """So many samples, by simulated time."""
    found: list[Sampled] = []
    until_s = mock.now() + 60
    while len(found) < rows and mock.now() < until_s:
        mock.wait(until_s)
        found.extend(mock.samples())
    return found


def test_a_counter_is_read_once_a_period(mock: MockExecutor) -> None:
    """Rows have the file's name, the period between them, and numbers; nothing more comes after the end."""
    ticket = mock.start_sampling("gpu001", [Source(COUNTER)], 0.5)
    found = sampled(mock, 3)
    assert {(one.ticket, one.names) for one in found} == {(ticket, (COUNTER,))}
    times = [at_s for one in found for at_s in one.at_s]
    assert [b - a for a, b in itertools.pairwise(times)] == pytest.approx([0.5, 0.5])
    assert all(isinstance(value, int) for one in found for value in one.rows[0])
    mock.stop_sampling(ticket)
    mock.wait(mock.now() + 5)
    assert mock.samples() == []


@pytest.mark.parametrize(("host", "path"), [("gpu002", COUNTER), ("gpu001", "/sys/class/infiniband/*/node_guid")])
def test_a_dead_host_or_a_pattern_is_lost(mock: MockExecutor, host: str, path: str) -> None:
    """Nothing can be sampled there, and one is told."""
    ticket = mock.start_sampling(host, [Source(path)], 0.1)
    (lost,) = mock.wait(mock.now() + 60)
    assert isinstance(lost, Lost)
    assert (lost.ticket, lost.error.host) == (ticket, host)  # type: ignore[attr-defined]
