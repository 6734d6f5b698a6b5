"""Commands carried by local processes, with an agent and without; a run that goes on keeps its clock."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until
from benchmarks.measured_rack import rack_topology
from fabric.errors import CommandTimeout, HostUnreachable, SessionLost
from fabric.hosts.mock import MockExecutor
from fabric.hosts.process import ProcessExecutor
from fabric.hosts.threads import Dispatcher
from fabric.hosts.wrapped import MarkedOutput
from fabric.model.inventory import MockSettings
from fabric.model.probe import Command
from fabric.ports import Lost, Source, run_once
from fabric.sim.world import World
from tests.hosts.contract import ExecutorContract
from tests.hosts.programs import Programs, collected

# What kubectl exec and ip netns exec do: carry the command, or complain and end by themselves.
_CARRIER = ("sh", "-c", '[ "$0" = dead ] && { echo "no route to $0" >&2; exit 255; }; exec "$@"', "{host}")


Make = Callable[..., ProcessExecutor]


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["agent", "plain"])
def kind(request: pytest.FixtureRequest) -> Make:
    """With an agent for all commands of a host, and with a process for each command."""
    return partial(ProcessExecutor, agents=request.param)


class TestHere(ExecutorContract):
    """Commands on this machine."""

    @pytest.fixture
    def executor(self, kind: Make) -> Iterator[ProcessExecutor]:
        """A fresh one; its threads must all end."""
        before = set(threading.enumerate())
        executor = kind()
        yield executor
        executor.close()
        assert until(lambda: before.issuperset(threading.enumerate()))


class TestBehindPrefix(Programs):
    """What a prefix has to do with: how it fails, what it carries there, and that nothing is left behind it."""

    dead_host = "dead"
    test_argv_arrives_unsplit = ExecutorContract.test_argv_arrives_unsplit
    test_environment_reaches_the_tool = ExecutorContract.test_environment_reaches_the_tool
    test_missing_tool_is_127 = ExecutorContract.test_missing_tool_is_127
    test_cancel_ends_a_command = ExecutorContract.test_cancel_ends_a_command
    test_close_ends_everything = ExecutorContract.test_close_ends_everything
    test_unreachable_host_is_lost_while_others_go_on = ExecutorContract.test_unreachable_host_is_lost_while_others_go_on

    @pytest.fixture
    def executor(self, kind: Make) -> Iterator[ProcessExecutor]:
        """A fresh one with a prefix."""
        executor = kind(_CARRIER)
        yield executor
        executor.close()

    def test_prefix_that_fails_is_unreachable_in_its_own_words(self, executor: ProcessExecutor) -> None:
        """What the carrier said about its failure reaches the operator."""
        with pytest.raises(
            HostUnreachable, match=r"dead: waiting for true: .* ended with 255; it said: no route to dead"
        ):
            run_once(executor, Command("dead", ("true",), 5))


def test_prefix_that_is_missing_is_unreachable(kind: Make) -> None:
    """A carrier that is not installed is transport trouble, not a missing tool."""
    executor = kind(("fabric-no-such-carrier", "{host}"))
    with pytest.raises(HostUnreachable, match="fabric-no-such-carrier"):
        run_once(executor, Command("h", ("true",), 5))
    executor.close()


def test_prefix_that_closes_stdin_is_said_so(kind: Make) -> None:
    """Without stdin nothing could end the command later, so it is ended at once and the operator told why."""
    executor = kind(("sh", "-c", 'exec "$@" </dev/null', "{host}"))
    with pytest.raises(HostUnreachable, match="stdin was closed on the way"):
        run_once(executor, Command("h", ("sleep", "60"), 70))
    executor.close()


@pytest.mark.parametrize("agents", [True, False])
def test_a_command_that_had_begun_lost_its_session_and_not_its_host(tmp_path: Path, agents: bool) -> None:
    """So it is begun once more in a new one, where a host that cannot be reached is given up."""
    begun = tmp_path / "begun"
    carrier = 'exec 3<&0; "$@" <&3 3<&- & until [ -e "$0" ]; do sleep 0.05; done; kill -s KILL $!'
    executor = ProcessExecutor(("sh", "-c", carrier, str(begun)), agents=agents)
    with pytest.raises(SessionLost):
        run_once(executor, Command("h", ("sh", "-c", 'touch "$1"; sleep 2', "sh", str(begun)), 20))
    executor.close()


@pytest.mark.slow
@pytest.mark.parametrize("agents", [True, False])
def test_killed_orchestrator_leaves_nothing_behind(agents: bool) -> None:
    """SIGKILL of the process that holds the executor ends what it started."""
    token = f"orchestrator-{os.getpid()}"
    program = (
        "from fabric.hosts.process import ProcessExecutor; from fabric.model.probe import Command\n"
        f"e = ProcessExecutor(agents={agents})\n"
        f"e.start(Command('h', ('sleep', '60'), 70, (('{TOKEN_NAME}', '{token}'),)))\n"
        "e.wait(e.now() + 60)"
    )
    with subprocess.Popen((sys.executable, "-c", program)) as orchestrator:
        assert until(lambda: bool(running_with(token)))
        orchestrator.send_signal(signal.SIGKILL)
    assert until(lambda: not processes_with(token)), processes_with(token)


@pytest.mark.slow
def test_a_command_that_floods_holds_up_nobody(kind: Make) -> None:
    """Its deadline is kept, and other hosts' commands run meanwhile, though it never stops printing."""
    executor = kind()
    try:
        flood = executor.start(Command("loud", ("yes",), 0.8))
        assert run_once(executor, Command("quiet", ("echo", "hello"), 20)).stdout == "hello\n"
        ((last,),) = collected(executor, [flood]).values()
        assert isinstance(last, Lost)
        assert isinstance(last.error, CommandTimeout)
        assert last.error.stdout.startswith("y\ny\n")
    finally:
        executor.close()


NONCE = "fabric-0123456789abcdef0123456789abcdef"


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(1, 60), max_size=40))
def test_words_are_found_wherever_the_data_is_cut(before: bytes, after: bytes, cuts: list[int]):
    """However the stream is cut into pieces, words are taken out and all the rest is kept."""
    data = before + f"{NONCE} ready\n".encode() + after + f"{NONCE} end 3\n".encode()
    output = MarkedOutput(NONCE, 1000)
    for cut in [*cuts, len(data)]:
        output.add(data[:cut])
        data = data[cut:]
    output.add(data)
    assert output.words == ["ready", "end 3"]
    assert output.text() == (before + after).decode("utf-8", "replace")
    assert output.finished


def test_word_is_heard_beyond_the_cap():
    """What the tool floods is dropped, what the wrapper says is not; memory stays bounded."""
    output = MarkedOutput(NONCE, 4)
    for _ in range(100):
        output.add(b"e" * 1000)
    assert not output.finished
    output.add(f"{NONCE} end 0\n".encode())
    assert (output.text(), output.truncated, output.finished) == ("eeee", True, True)


def test_beginning_of_a_word_that_never_comes_is_output():
    """A tool may print what looks like the beginning of a marked line."""
    output = MarkedOutput(NONCE, 1000)
    output.add(b"fabric-0123")
    assert output.text() == "fabric-0123"
    output.add(b"zzz")
    assert (output.text(), output.truncated) == ("fabric-0123zzz", False)


LIMIT_S = 20.0


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    """One with nothing to do."""
    dispatcher = Dispatcher(tick=lambda: 60.0, settle=lambda: None)
    yield dispatcher
    dispatcher.close(LIMIT_S)


def test_a_number_that_comes_again_is_watched_for_its_new_owner(dispatcher: Dispatcher) -> None:
    """Also if the last owner closed it without a word, and only says afterwards that it does not care any more."""
    read_fd, write_fd = os.pipe()
    first, second = threading.Event(), threading.Event()
    ready = threading.Event()
    old, new = first.set, second.set

    def scene() -> None:
        dispatcher.watch(read_fd, old)
        dispatcher.watch(read_fd, new)
        dispatcher.unwatch(read_fd, old)
        ready.set()

    dispatcher.post(scene)
    assert ready.wait(LIMIT_S)
    os.write(write_fd, b"x")
    assert second.wait(LIMIT_S)
    assert not first.is_set()
    gone = threading.Event()
    dispatcher.post(lambda: dispatcher.unwatch(read_fd, new))
    dispatcher.post(gone.set)
    assert gone.wait(LIMIT_S)
    os.close(read_fd)
    os.close(write_fd)


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
