"""A run that goes on keeps its clock, whatever the executor's own clock reads."""

from __future__ import annotations

from fabric.engine.continued_clock import continued, simulated_until
from fabric.hosts.mock import MockExecutor
from fabric.model.command import Command
from fabric.ports import Ended, Executor, Source
from fabric.sim.world import World
from tests.conftest import rack_topology


def rack() -> MockExecutor:
    """A simulated rack, ten seconds old."""
    executor = MockExecutor(World(rack_topology(1), faults=(), seed=1, noise_cv=0.0))
    executor.wait(10.0)
    return executor


def ended(executor: Executor) -> Ended:
    """What happens next."""
    return next(one for _ in range(100) for one in executor.wait(executor.now() + 5.0) if isinstance(one, Ended))


def test_it_reads_what_the_run_had_reached() -> None:
    executor = continued(rack(), 500.0)
    assert executor.now() == 500.0
    executor.wait(507.0)
    assert executor.now() == 507.0


def test_what_happens_is_told_in_its_time() -> None:
    executor = continued(rack(), 500.0)
    executor.start(Command("gpu001", ("echo", "present"), 10.0))
    result = ended(executor).result
    assert 500.0 <= result.started_s <= result.ended_s <= executor.now() < 520.0


def test_samples_are_told_in_its_time() -> None:
    executor = continued(rack(), 500.0)
    path = "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"
    ticket = executor.start_sampling("gpu001", (Source(path=path),), 1.0)
    executor.wait(505.0)
    executor.stop_sampling(ticket)
    found = [at_s for sampled in executor.samples() for at_s in sampled.at_s]
    assert found
    assert all(500.0 <= at_s <= 505.0 for at_s in found)


def test_a_simulated_rack_lives_on_to_that_moment() -> None:
    assert simulated_until(rack(), 500.0).now() >= 500.0
