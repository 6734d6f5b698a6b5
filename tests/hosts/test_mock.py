"""The mock executor keeps the executor's promises in simulated time."""

from __future__ import annotations

from math import inf

import pytest

from fabric.errors import CommandTimeout, HostUnreachable
from fabric.hosts.mock import MockExecutor
from fabric.model.command import Command
from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Gpu, Host, PcieSwitch, Platform, Rnic, Switch, Topology
from fabric.ports import Ended, Lost, Ready
from fabric.sim.world import World

SERVER = ("ib_write_bw", "--ib-dev=mlx5_0", "--port=18600", "--duration=5", "--report_gbits")
CLIENT = (*SERVER, "127.0.0.1")


def executor(*faults: Fault) -> MockExecutor:
    """Two hosts with two RNICs and two GPUs each."""
    platform = Platform(
        name="small",
        gpus=(Gpu(0, 0, "pcie0"), Gpu(1, 0, "pcie0")),
        rnics=tuple(Rnic(f"mlx5_{n}", 1, n, 0, "pcie0", 400.0, (n,)) for n in range(2)),
        numa_nodes=1,
        pcie_switches=(PcieSwitch("pcie0", 0),),
        link_layer="infiniband",
        baseline="h100-ndr",
    )
    leaves = ("leaf0", "leaf1")
    hosts = {name: Host(name, platform, name, None, leaves) for name in ("gpu1", "gpu2")}
    topology = Topology(hosts, {name: Switch(name, "leaf") for name in leaves})
    return MockExecutor(World(topology, MockSettings(faults=faults, noise_cv=0.0), seed=3))


def all_happenings(mock: MockExecutor, until_s: float = inf) -> list[Ready | Ended | Lost]:
    """Everything until nothing happens any more."""
    found: list[Ready | Ended | Lost] = []
    while batch := mock.wait(until_s):
        found.extend(batch)
    return found


def test_a_pair_runs_server_first():
    """The server is ready, then both end at the same instant, in simulated time."""
    mock = executor()
    server = mock.start(Command("gpu1", SERVER, 30.0, ready_port=18600))
    assert mock.wait(10.0) == [Ready(server, pytest.approx(0.35))]
    client = mock.start(Command("gpu1", CLIENT, 30.0))
    done = mock.wait(100.0)
    assert [event.ticket for event in done] == [server, client]
    assert {event.result.exit_status for event in done} == {0}
    assert mock.now() == pytest.approx(0.35 + 0.05 + 1.0 + 5.0)
    assert done[1].result.started_s == pytest.approx(0.40)
    assert done[1].result.ended_s == mock.now()


def test_ready_only_for_the_port_that_was_asked_for():
    """A command without ready_port, or with another, never is Ready."""
    mock = executor()
    mock.start(Command("gpu1", SERVER, 2.0))
    mock.start(Command("gpu2", SERVER, 2.0, ready_port=5))
    assert [type(event) for event in all_happenings(mock)] == [Lost, Lost]


def test_wait_ends_at_its_time_and_never_goes_back():
    """Nothing happens: the clock reads until_s; an endless wait with nothing to come returns at once."""
    mock = executor()
    assert mock.wait(5.0) == []
    assert mock.now() == 5.0
    assert mock.wait(3.0) == []
    assert mock.wait(float("inf")) == []
    assert mock.now() == 5.0


def test_the_deadline_ends_a_command():
    """It is Lost after timeout_s of its own time, its process is gone and its port free."""
    mock = executor()
    ticket = mock.start(Command("gpu1", SERVER, 7.0))
    (lost,) = all_happenings(mock)
    assert (lost.ticket, lost.at_s) == (ticket, pytest.approx(7.05))
    assert isinstance(lost.error, CommandTimeout)
    again = mock.start(Command("gpu1", SERVER, 7.0, ready_port=18600))
    assert isinstance(mock.wait(100.0)[0], Ready)
    mock.cancel(again)


def test_dead_hosts_are_lost_after_the_connect_timeout():
    """A host that is down, and one that nobody knows."""
    mock = executor(Fault("gpu1", "broken"))
    mock.start(Command("gpu1", ("true",), 30.0))
    mock.start(Command("gpu9", ("true",), 30.0))
    lost = all_happenings(mock)
    assert [event.at_s for event in lost] == [15.0, 15.0]
    assert all(isinstance(event.error, HostUnreachable) for event in lost)
    assert [str(event.error) for event in lost] == [
        "gpu1: connect: No route to host",
        "gpu9: connect: Name or service not known",
    ]


def test_cancel_ends_with_137_whether_it_runs_or_not():
    """A cancelled command still yields exactly one Ended; unknown tickets are ignored."""
    mock = executor()
    running = mock.start(Command("gpu1", SERVER, 30.0))
    mock.wait(1.0)
    unborn = mock.start(Command("gpu1", CLIENT, 30.0))
    for ticket in (running, unborn, 99):
        mock.cancel(ticket)
    mock.cancel(running)
    done = all_happenings(mock)
    assert [(event.ticket, event.result.exit_status) for event in done] == [(running, 137), (unborn, 137)]


def test_output_beyond_the_cap_is_cut_and_marked():
    """Each stream keeps at most its cap, plus the mark."""
    mock = executor()
    mock.start(Command("gpu1", ("echo", "ä" * 600), 30.0, output_cap_bytes=1001))
    mock.start(Command("gpu1", ("echo", "x" * 600), 30.0, output_cap_bytes=1001))
    cut, whole = (event.result for event in all_happenings(mock))
    assert cut.truncated
    assert cut.stdout == "ä" * 500 + "\n[output cut at 1001 bytes]\n"
    assert (whole.truncated, whole.stdout) == (False, "x" * 600 + "\n")


def test_argv_arrives_unsplit():
    """Spaces, quotes, dollars, newlines and other letters stay as they are."""
    mock = executor()
    words = ("a b", "'q\"", "$HOME", "l1\nl2", "ü", "")
    mock.start(Command("gpu1", ("echo", *words), 30.0))
    (ended,) = all_happenings(mock)
    assert ended.result.stdout == " ".join(words) + "\n"


def test_one_instant_is_one_batch():
    """Commands that end at the same simulated time arrive together."""
    mock = executor()
    tickets = [mock.start(Command(host, ("true",), 30.0)) for host in ("gpu1", "gpu2", "gpu1")]
    assert [event.ticket for event in mock.wait(100.0)] == tickets


def test_the_environment_reaches_the_program():
    """``env`` of a command is what the program sees."""
    mock = executor()
    argv = ("alltoall_perf", "-b", "1G", "-e", "1G", "-g", "2")
    mock.start(Command("gpu1", argv, 60.0, env=(("CUDA_VISIBLE_DEVICES", "1"),)))
    (ended,) = all_happenings(mock)
    assert "2 requested but only 1 were found" in ended.result.stderr


def test_a_hanging_host_ends_at_the_deadline():
    """Only the deadline helps against a host that never answers."""
    mock = executor(Fault("gpu1", "hanging"))
    mock.start(Command("gpu1", ("true",), 4.0))
    (lost,) = all_happenings(mock)
    assert isinstance(lost.error, CommandTimeout)


def test_close_is_final_and_may_be_repeated():
    """After close nothing is left to happen."""
    mock = executor()
    mock.start(Command("gpu1", SERVER, 30.0))
    mock.wait(1.0)
    mock.close()
    mock.close()
    assert mock.wait(100.0) == []
