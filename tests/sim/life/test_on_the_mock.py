"""Hosts that fail while the mock executor runs commands on them."""

from __future__ import annotations

from fabric.errors import CommandTimeout, HostUnreachable
from fabric.hosts.mock import MockExecutor
from fabric.model.command import Command
from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.ports import Ended, Lost
from fabric.sim.world import World


def executor(kit, *timed):
    """Two hosts to which this happens."""
    topology = kit.topology_of(2, kit.platform_like())
    return MockExecutor(World(topology, MockSettings(noise_cv=0.0, timed_faults=tuple(timed)), seed=1))


def end_of(mock, ticket, until_s=1000.0):
    """What became of a command."""
    while mock.now() < until_s:
        for happening in mock.wait(until_s):
            if happening.ticket == ticket:
                return happening
    raise AssertionError("it never ended")


def test_a_command_on_a_host_that_goes_away_ends_at_its_deadline(kit):
    """Nobody tells the caller; the next command is lost for want of a route, one after the repair works."""
    mock = executor(kit, TimedFault(5.0, 60.0, Fault("gpu001", "broken")))
    lost = end_of(mock, mock.start(Command("gpu001", ("sleep", "20"), 30.0)))
    assert isinstance(lost, Lost)
    assert isinstance(lost.error, CommandTimeout)
    gone = end_of(mock, mock.start(Command("gpu001", ("true",), 30.0)))
    assert isinstance(gone, Lost)
    assert isinstance(gone.error, HostUnreachable)
    mock.wait(100.0)
    assert isinstance(end_of(mock, mock.start(Command("gpu001", ("true",), 30.0))), Ended)


def test_a_host_that_goes_away_in_the_last_moment_is_unreachable(kit):
    """Between the call and the start of the command."""
    mock = executor(kit, TimedFault(0.02, 60.0, Fault("gpu001", "broken")))
    lost = end_of(mock, mock.start(Command("gpu001", ("true",), 30.0)))
    assert isinstance(lost, Lost)
    assert isinstance(lost.error, HostUnreachable)
    assert lost.at_s < 20.0


def test_a_command_is_told_of_a_flap_at_the_time_of_the_flap(kit):
    """Not when something else happens to wake the world."""
    mock = executor(kit, TimedFault(3.0, 2.0, Fault("gpu001/mlx5_0", "broken")))
    words = ("ib_write_bw", "--ib-dev=mlx5_0", "--port=18600", "--duration=60", "--report_gbits", "-F")
    mock.start(Command("gpu001", words, 100.0, ready_port=18600))
    mock.wait(1.0)
    ended = end_of(mock, mock.start(Command("gpu001", (*words, "localhost"), 100.0)))
    assert isinstance(ended, Ended)
    assert ended.result.exit_status == 1
    assert ended.result.ended_s < 4.0
