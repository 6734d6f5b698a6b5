"""The simulated rack behind real SSH answers as the simulated rack itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks.lab.namespaces import inside
from benchmarks.lab.rack import Rack
from fabric.errors import CommandTimeout, HostUnreachable
from fabric.hosts.ssh.executor import SshExecutor
from fabric.model.command import Command
from fabric.model.inventory import Fault
from fabric.ports import Ended, Ready, run_once
from tests.hosts.observing import collected

pytestmark = pytest.mark.lab

MakeRack = Callable[..., Rack]
WRITE = (
    "ib_write_bw",
    "--ib-dev=mlx5_0",
    "--ib-port=1",
    "--port=18515",
    "--size=1048576",
    "--duration=5",
    "--report_gbits",
)


@pytest.fixture
def reached(rack: MakeRack) -> Iterator[tuple[Rack, SshExecutor]]:
    """A rack of three with a host that hangs, one that is gone, and an executor that reaches it."""
    made = rack(hosts=4, faults=(Fault("gpu003", "hanging"), Fault("gpu004", "broken")), seed=7)
    inventory = made.inventory()
    with inside(made.lab.namespaces.orchestrator):
        executor = SshExecutor(inventory.ssh, {host.name: host.address for host in inventory.topology.hosts.values()})
        yield made, executor
        executor.close()


def test_a_pair_measures_bandwidth(reached: tuple[Rack, SshExecutor]) -> None:
    """A server listens for real, its client connects by address, and both print the tool's table."""
    rack, executor = reached
    server = executor.start(Command("gpu001", WRITE, 60, ready_port=18515))
    (ready,) = executor.wait(executor.now() + 30)
    assert isinstance(ready, Ready), ready
    client = executor.start(Command("gpu002", (*WRITE, rack.lab.addresses["gpu001"]), 60))
    for happened in collected(executor, [server, client]).values():
        (last,) = happened
        assert isinstance(last, Ended), last
        assert (last.result.exit_status, last.result.stderr) == (0, "")
        assert "BW average[Gb/sec]" in last.result.stdout


def test_a_cancelled_server_is_gone_from_the_simulated_host_too(reached: tuple[Rack, SshExecutor]) -> None:
    """Its port is free again: the next server on it gets ready."""
    _, executor = reached
    for _ in range(2):
        server = executor.start(Command("gpu001", WRITE, 60, ready_port=18515))
        (ready,) = executor.wait(executor.now() + 30)
        assert isinstance(ready, Ready), ready
        executor.cancel(server)
        ((last,),) = collected(executor, [server]).values()
        assert isinstance(last, Ended)


def test_faults_reach_the_executor(reached: tuple[Rack, SshExecutor]) -> None:
    """A hanging host runs into the deadline, a broken one has no SSH, a small program is the host's own."""
    _, executor = reached
    assert run_once(executor, Command("gpu002", ("hostname",), 20)).stdout == "gpu002\n"
    with pytest.raises(CommandTimeout):
        run_once(executor, Command("gpu003", ("hostname",), 1))
    with pytest.raises(HostUnreachable, match="connection refused"):
        run_once(executor, Command("gpu004", ("hostname",), 20))
