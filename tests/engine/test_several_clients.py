"""A probe with several clients, and what hosts call themselves."""

from math import inf

import pytest

from fabric.engine.probe_run import NAME_WORDS, WORDS, ProbeRun, roll_call_problem
from fabric.errors import ExecutorError, HostUnreachable
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, CommandResult, NamedPart
from fabric.model.topology import Topology
from fabric.probes.incast import IncastSpec
from tests.builders import asked
from tests.engine.scripted import Script, ScriptedExecutor
from tests.places import SCENARIOS


@pytest.fixture
def topology() -> Topology:
    """The simulated RoCE fabric."""
    return asked(SCENARIOS / "incast.yaml").inventory.topology


def played(topology: Topology, script: Script, limit_s: float = inf) -> tuple[ProbeRun, ScriptedExecutor]:
    """An incast of three senders, driven to its end."""
    specs = IncastSpec(senders=(3,)).expand(phase="p", topology=topology, hosts=tuple(topology.hosts), ports=iter(()))
    executor = ScriptedExecutor(script)
    run = ProbeRun(next(iter(specs)), topology, executor, limit_s=limit_s)
    run.begin()
    for _ in range(100):
        if run.done:
            return run, executor
        for happening in executor.wait(executor.now() + 1.0 if run.deadline_s is None else run.deadline_s):
            run.take(happening)
        if run.deadline_s is not None and executor.now() >= run.deadline_s:
            run.overdue()
    raise AssertionError("it never ended")


def kind(command: Command) -> str:
    """What a command of the probe is."""
    if command.argv == WORDS:
        return "roll"
    return "counters" if command.argv[0] == "sh" else "server" if command.ready_port is not None else "client"


def test_counters_servers_clients_counters(topology: Topology) -> None:
    """In this order, each sort at once."""
    _, executor = played(topology, lambda command: (0.5, "whole\n" if kind(command) == "counters" else "nonsense\n"))
    order = ["counters"] * 4 + ["server"] * 3 + ["client"] * 3 + ["counters"] * 4
    assert [kind(command) for command in executor.commands][: len(order)] == order


def test_one_client_that_fails_ends_it(topology: Topology) -> None:
    """Nothing is left running, its words are the reason, and counters of half a measurement are not read."""

    def script(command: Command) -> tuple[float, str]:
        fails = kind(command) == "client" and command.host != "gpu09"
        return (0.5, "whole\n" if kind(command) == "counters" else "fatal: it broke\n" if fails else "nonsense\n")

    run, executor = played(topology, script)
    assert executor.open == []
    assert [kind(command) for command in executor.commands].count("counters") == 4
    assert run.result().outcome is Outcome.ERROR


def test_a_host_that_is_lost_before_is_named(topology: Topology) -> None:
    """No server is started where not all counters could be read."""

    def script(command: Command) -> tuple[float, str | ExecutorError]:
        lost = command.host == "gpu17"
        return (0.5, HostUnreachable(command.host, "connect", "no route") if lost else "whole\n")

    run, executor = played(topology, script)
    assert {kind(command) for command in executor.commands} == {"counters"}
    assert (run.result().outcome, run.result().error_host) == (Outcome.ERROR, "gpu17")


def clients_of(executor: ScriptedExecutor) -> list[Command]:
    """All that were started, in order."""
    return [command for command in executor.commands if kind(command) == "client"]


def test_servers_wait_for_the_slowest_client(topology: Topology) -> None:
    """One that ends 25 s after the others is not cut off: the time of the servers begins when the last one ended."""
    senders: list[str] = []

    def script(command: Command) -> tuple[float, str]:
        senders.extend([command.host] if kind(command) == "client" else [])
        slow = kind(command) == "server" or senders[1:2] == [command.host]
        return (0.5, "whole\n") if kind(command) == "counters" else (29.0 if slow else 5.0, "nonsense\n")

    run, executor = played(topology, script)
    assert [one.exit_status for one in run.outputs if kind(one.command) == "client"] == [0, 0, 0]
    assert [kind(command) for command in executor.commands].count("counters") == 8


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_client_that_hangs_ends_with_the_learned_limit(topology: Topology, number: int) -> None:
    """Whichever it is: nothing is left running, its host is told, and it is no word against the fabric."""
    senders: list[str] = []

    def script(command: Command) -> tuple[float, str | None]:
        if kind(command) == "client" and command.host not in senders:
            senders.append(command.host)
        hangs = kind(command) == "client" and senders.index(command.host) == number
        return 5.0, "whole\n" if kind(command) == "counters" else None if hangs else "nonsense\n"

    run, executor = played(topology, script, limit_s=20.0)
    assert {one.timeout_s for one in clients_of(executor)} == {20.0}
    assert executor.open == []
    result = run.result()
    assert (result.outcome, result.error_host, result.failure) == (Outcome.ERROR, senders[number], None)
    assert "which is more than 3 times what it took in earlier rounds" in result.reason


def answered(names: dict[str, str], host: str, status: int, said: str) -> str:
    """A host answers its own name; what is wrong with that."""
    return roll_call_problem(CommandResult(Command(host, NAME_WORDS, 15.0), status, said, "", 0.0, 1.0), names)


def test_each_host_is_asked_and_remembered() -> None:
    """By its name in the inventory."""
    names: dict[str, str] = {}
    assert answered(names, "gpu001", 0, "node-01.rack.example\n") == ""
    assert answered(names, "gpu002", 0, "node-02\n") == ""
    assert names == {"gpu001": "node-01.rack.example", "gpu002": "node-02"}


def test_a_host_without_the_program_is_there_and_its_name_stays_unknown() -> None:
    """It answered; what it calls itself is not guessed."""
    names: dict[str, str] = {}
    assert (answered(names, "gpu001", 127, ""), names) == ("", {})


def test_a_server_that_ends_before_the_clients_begin_is_an_error_of_nobody_known(topology: Topology) -> None:
    """No client is started, and its hosts are all there."""

    def script(command: Command) -> tuple[float, str]:
        return (0.05 if kind(command) == "server" else 0.5, "whole\n" if kind(command) == "counters" else "fatal: no\n")

    run, executor = played(topology, script)
    result = run.result()
    assert clients_of(executor) == executor.open == []
    assert (result.outcome, result.error_host) == (Outcome.ERROR, None)


@pytest.mark.parametrize("times", [1, 3])
def test_a_client_that_waits_for_a_server_that_was_killed_is_not_what_is_wrong(topology: Topology, times: int) -> None:
    """The client is ended at its deadline, and the signal on the server's host is what is told."""
    killed: list[str] = []

    def script(command: Command) -> tuple[float, str | None]:
        if kind(command) == "server" and len(killed) < times:
            killed.append(command.host)
            return 2.0, "Killed\n"
        return 2.0, "whole\n" if kind(command) == "counters" else None

    run, executor = played(topology, script)
    assert executor.open == []
    result = run.result()
    assert (result.outcome, result.named) == (Outcome.ERROR, NamedPart(killed[0], "killed"))
    assert "was ended by SIGKILL, not by fabric" in result.reason
    assert result.error_host not in {command.host for command in clients_of(executor)}


@pytest.mark.parametrize(
    ("host", "reason"), [("gpu17", "gpu17: given up: it is silent"), (None, "it is silent")], ids=["host", "phase"]
)
def test_a_probe_that_ends_with_its_phase_is_the_fault_of_none_of_its_hosts(
    topology: Topology, host: str | None, reason: str
) -> None:
    """The reason is that of the probes that were not begun."""
    run, _ = played(topology, lambda _: (0.5, "whole\n"))
    begun = ProbeRun(run.probe, topology, ScriptedExecutor(lambda _: (0.5, "whole\n")))
    begun.begin()
    begun.abandon(host, "it is silent")
    result = begun.result()
    assert (result.outcome, result.reason, result.error_host) == (Outcome.ERROR, reason, host)
