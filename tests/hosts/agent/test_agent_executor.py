"""Agents carried by local processes: hosts whose Python is missing, broken or noisy, and hosts that hang."""

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until
from fabric.hosts.agent import session
from fabric.hosts.process import ProcessExecutor
from fabric.hosts.stream import GRACE_S
from fabric.model.probe import Command
from fabric.ports import Lost, Sampled, Source, run_once
from tests.hosts.programs import collected

pytestmark = pytest.mark.slow

Make = Callable[..., ProcessExecutor]
_TOOLS = ("sh", "cat", "env", "grep", "sed", "setsid", "sleep", "timeout", "echo", "true")


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes executors behind a prefix; they and their threads end with the test."""
    made: list[ProcessExecutor] = []
    before = set(threading.enumerate())

    def _make(*prefix: str) -> ProcessExecutor:
        made.append(ProcessExecutor(prefix))
        return made[-1]

    yield _make
    for executor in made:
        executor.close()
    assert until(lambda: before.issuperset(threading.enumerate()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A PATH folder with all that plain commands need, and no Python."""
    for name in _TOOLS:
        found = next(path for path in (Path("/bin") / name, Path("/usr/bin") / name) if path.exists())
        (tmp_path / name).symlink_to(found)
    return tmp_path


def python(folder: Path, text: str) -> None:
    """Put a python3 of our own there."""
    (folder / "python3").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "python3").chmod(0o755)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "exit 1",
        "exit 71",
        "echo 'ImportError: no module named zlib' >&2; exit 1",
        "echo garbage; cat >/dev/null; exit 0",
        "kill -9 $$",
        "yes",
        "echo fabric-agent- hello; exit 0",
    ],
    ids=["absent", "fails", "too old", "complains", "swallows", "killed", "floods", "lies"],
)
def test_without_a_python_that_works_commands_run_all_the_same(make: Make, folder: Path, text: str | None) -> None:
    """The host is served plainly, and that is remembered: Python is tried once."""
    tried = folder / "tried"
    if text is not None:
        python(folder, f"echo x >>{tried}; PATH=/usr/bin:/bin; {text}")
    executor = make("env", f"PATH={folder}")
    for _ in range(3):
        assert run_once(executor, Command("h", ("echo", "hello"), 20)).stdout == "hello\n"
    if text is not None:
        assert tried.read_text() == "x\n"


def test_a_python_that_hangs_is_not_waited_for_long(make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose Python says nothing is served plainly after a while."""
    monkeypatch.setattr(session, "HELLO_S", 0.5)
    python(folder, "exec sleep 60")
    assert run_once(make("env", f"PATH={folder}"), Command("h", ("echo", "hello"), 20)).stdout == "hello\n"


def test_samples_need_python_and_say_so(make: Make, folder: Path) -> None:
    """What cannot be done plainly is Lost with the reason."""
    executor = make("env", f"PATH={folder}")
    ticket = executor.start_sampling("h", [Source("/proc/uptime")], 0.1)
    ((last,),) = collected(executor, [ticket]).values()
    assert isinstance(last, Lost)
    assert "sampling needs an agent, and none can be started: " in str(last.error)
    assert "python3" in str(last.error)


def test_a_frozen_agent_costs_deadline_and_grace(make: Make) -> None:
    """SIGSTOP of the agent: its commands are lost soon after the deadline, and end when it wakes; then all is well."""
    executor, token = make(), f"frozen-agent-{os.getpid()}"
    begun_s = executor.now()
    ticket = executor.start(Command("h", ("sleep", "60"), 4.0, ((TOKEN_NAME, token),)))
    assert until(lambda: bool(running_with(token)))
    os.kill(parent_of(token), signal.SIGSTOP)
    ((last,),) = collected(executor, [ticket]).values()
    assert isinstance(last, Lost)
    assert "the host said nothing within 10 s" in str(last.error)
    assert last.at_s - begun_s <= 4.0 + GRACE_S + 5  # and starting the agent
    assert until(lambda: not processes_with(token)), processes_with(token)
    assert run_once(executor, Command("h", ("true",), 10)).exit_status == 0


def test_a_killed_agent_is_lost_and_replaced(make: Make) -> None:
    """What ran is Lost; the next command finds a new agent; the leader of each session died with the old one."""
    executor, token = make(), f"killed-agent-{os.getpid()}"
    ticket = executor.start(Command("h", ("sleep", "60"), 50, ((TOKEN_NAME, token),)))
    assert until(lambda: bool(running_with(token)))
    os.kill(parent_of(token), signal.SIGKILL)
    ((last,),) = collected(executor, [ticket]).values()
    assert isinstance(last, Lost)
    assert "waiting for sleep: the process that carries the agent ended with -9" in str(last.error)
    assert until(lambda: not processes_with(token)), processes_with(token)
    assert run_once(executor, Command("h", ("true",), 10)).exit_status == 0


def test_a_hundred_megabytes_of_output_cost_us_the_cap(make: Make) -> None:
    """Both ends drop what is beyond it."""
    executor = make()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run_once(executor, Command("h", ("head", "-c", "100000000", "/dev/zero"), 60))
    assert (len(result.stdout), result.truncated) == (1 << 20, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 30_000


def test_samples_arrive_while_commands_run(make: Make, tmp_path: Path) -> None:
    """Rows have names, times of our clock, and the values of the file."""
    counter = tmp_path / "counter"
    counter.write_text("1")
    executor = make()
    begun_s = executor.now()
    ticket = executor.start_sampling("h", [Source(str(counter)), Source(argv=("echo", "rx: 5"))], 0.02)
    found: list[Sampled] = []
    assert until(lambda: bool(executor.wait(executor.now() + 0.05)) or bool(found.extend(executor.samples()) or found))
    counter.write_text("4")

    def seen() -> bool:
        executor.wait(executor.now() + 0.05)
        found.extend(executor.samples())
        return any(one.rows[-1] == (4,) for one in found)

    assert until(seen)
    executor.cancel(ticket)
    assert {one.names for one in found} == {(str(counter),), ("rx",)}
    for one in found:
        assert one.ticket == ticket
        assert all(begun_s - 0.1 <= at_s <= executor.now() for at_s in one.at_s)
        assert list(one.at_s) == sorted(one.at_s)
    assert run_once(executor, Command("h", ("true",), 10)).exit_status == 0


def test_a_connection_lost_between_commands_costs_nothing(make: Make) -> None:
    """An agent that died idle is replaced without a word."""
    executor = make()
    for _ in range(3):
        end = run_once(executor, Command("h", ("sh", "-c", "echo $PPID"), 10))
        agent = int(end.stdout)
        os.kill(agent, signal.SIGKILL)
        # A command that is sent before its death is noticed is lost with it: it may have begun. Who notices reaps it.
        assert until(lambda agent=agent: not Path(f"/proc/{agent}").exists())


def parent_of(token: str) -> int:
    """The agent: the parent of a command that carries *token*."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and token.encode() in _environ(entry):
            return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError(f"no process carries {token}")


def _environ(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""
