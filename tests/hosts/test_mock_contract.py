"""The contract of executors in simulated time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Fault, MockSettings
from fabric.ports import Executor
from fabric.sim.world import World
from tests.hosts.contract import ExecutorContract
from tests.hosts.programs import Argv


class TestMock(ExecutorContract):
    """Simulated hosts know the tools of the trade and a few small programs; the rest has no meaning there."""

    host = "gpu001"
    dead_host = "gpu004"
    absent = "simulated hosts have no such program"
    begun = ""
    cancelled = 137
    listen_s = 0.3

    @pytest.fixture
    def executor(self) -> Iterator[MockExecutor]:
        """Four hosts, of which one is dead."""
        world = World(
            rack_topology(4, parts=2), MockSettings(faults=(Fault("gpu004", "broken"),), noise_cv=0.0), seed=1
        )
        executor = MockExecutor(world)
        yield executor
        executor.close()

    def exits(self, status: int) -> Argv | None:
        """Only 0 and 1 are at hand."""
        return {0: ("true",), 1: ("false",)}.get(status)

    def signalled(self, number: int) -> Argv | None:
        """Nothing there is ended by a signal."""
        return None

    def repeats(self, words: Argv) -> Argv | None:
        """No program shows where its arguments begin and end."""
        return None

    def shows_variable(self, name: str) -> Argv | None:
        """Nor its environment, but ``env``, which shows all of it."""
        return None

    def floods(self, stdout_bytes: int, stderr_bytes: int) -> Argv | None:
        """Output is what real tools print, never much."""
        return None

    def lingers(self) -> Argv | None:
        """Says nothing before its minute is over."""
        return ("sleep", "60")

    def stubborn(self) -> Argv | None:
        """Nothing there can ignore a signal; it only has to end."""
        return ("sleep", "60")

    def leaves_child(self) -> Argv | None:
        """There are no children."""
        return None

    def serves(self, port: int, after_s: float) -> Argv | None:
        """perftest's server; how long it takes to listen is the simulation's choice."""
        return ("ib_write_bw", "--ib-dev=mlx5_0", f"--port={port}", "--duration=5", "--report_gbits")

    def free_port(self) -> int:
        """All are free."""
        return 18515

    def test_nul_is_refused(self, executor: Executor) -> None:
        """No argv of a real process is made."""
        pytest.skip("simulated hosts take any text")

    def left(self, token: str) -> list[str]:
        """Simulated processes are not to be found on this machine."""
        return []

    def let_begin(self, executor: Executor, token: str) -> None:
        """A moment of simulated time."""
        executor.wait(executor.now() + 0.1)
