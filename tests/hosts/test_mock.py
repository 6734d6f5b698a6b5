"""The mock executor: the contract in simulated time, its own promises, sampling, and accounts of switches."""

import itertools
from collections.abc import Iterator
from math import inf

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.errors import HostUnreachable
from fabric.hosts.mock import MockExecutor
from fabric.hosts.ssh import SshExecutor, connection
from fabric.model.inventory import Fault, JumpHost, MockSettings, SshSettings
from fabric.model.probe import Command
from fabric.model.topology import Gpu, Host, Login, PcieSwitch, Platform, Rnic, Switch, Topology
from fabric.ports import Ended, Executor, Lost, Ready, Sampled, Source, run_once
from fabric.sim.world import World
from tests.hosts.contract import ExecutorContract
from tests.hosts.programs import Argv

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


def test_one_instant_is_one_batch():
    """Commands that end at the same simulated time arrive together."""
    mock = executor()
    tickets = [mock.start(Command(host, ("true",), 30.0)) for host in ("gpu1", "gpu2", "gpu1")]
    assert [event.ticket for event in mock.wait(100.0)] == tickets


SETTINGS = SshSettings(user="root", port=22, agent=False, known_hosts=())


class Silent:
    """Stands for the user's keys, for a socket, and for the connection over it: a server that shows no key."""

    def __init__(self, host: str, *_: object, **__: object) -> None:
        self.host = host

    def exchange_keys(self, *_: object, **__: object) -> None:
        """None."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[JumpHost]:
    """Whose keys would have been checked."""
    found: list[JumpHost] = []

    def check(known: object, shown: object, host: str, target: JumpHost, **_: object) -> None:
        found.append(target)
        raise HostUnreachable(host, "connecting", "not tried")

    for name in ("user_keys", "close_agent", "connected", "Connection"):
        monkeypatch.setattr(connection, name, Silent)
    monkeypatch.setattr(connection, "check_host_key", check)
    return found


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gpu001", JumpHost("10.0.0.1", "root", 22)),
        ("leaf0", JumpHost("leaf0.mgmt", "cumulus", 2222)),
        ("leaf1", JumpHost("leaf1.mgmt", "root", 22)),
    ],
)
def test_each_goes_to_its_own_address_as_its_own_account(reached: list[JumpHost], name: str, target: JumpHost) -> None:
    logins = {"leaf0": Login("leaf0.mgmt", "nvue", "cumulus", 2222), "leaf1": Login("leaf1.mgmt", "nvue")}
    executor = SshExecutor(SETTINGS, {"gpu001": "10.0.0.1"}, logins)
    try:
        with pytest.raises(HostUnreachable, match="not tried"):
            run_once(executor, Command(name, ("true",), 5))
    finally:
        executor.close()
    assert reached == [target]


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
    mock.cancel(ticket)
    mock.wait(mock.now() + 5)
    assert mock.samples() == []


@pytest.mark.parametrize(("host", "path"), [("gpu002", COUNTER), ("gpu001", "/sys/class/infiniband/*/node_guid")])
def test_a_dead_host_or_a_pattern_is_lost(mock: MockExecutor, host: str, path: str) -> None:
    """Nothing can be sampled there, and one is told."""
    ticket = mock.start_sampling(host, [Source(path)], 0.1)
    (lost,) = mock.wait(mock.now() + 60)
    assert isinstance(lost, Lost)
    assert (lost.ticket, lost.error.host) == (ticket, host)  # type: ignore[attr-defined]
