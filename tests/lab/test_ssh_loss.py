"""What is lost over real SSH, how soon it is noticed, how it is worded, and what stays behind (nothing)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER, Lab, own_environment
from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until
from benchmarks.lab.sshd import children, make_key
from fabric.errors import HostUnreachable
from fabric.hosts.ssh import SshExecutor
from fabric.model.inventory import SshSettings
from fabric.model.probe import Command
from fabric.ports import Ended, Lost, run_once
from tests.hosts.programs import collected

pytestmark = pytest.mark.lab


@pytest.fixture(params=[True, False], ids=["agent", "plain"])
def agents(request: pytest.FixtureRequest) -> bool:
    """With an agent on each host, and with a channel for each command."""
    return bool(request.param)


@pytest.fixture(autouse=True)
def alone(orchestrator: Lab) -> None:
    """Sessions of the test before have ended on h1: they outlive its executor for a moment, and are counted here."""
    assert until(lambda: not orchestrator.sshd["h1"].sessions())


@pytest.fixture
def executor(agents: bool, orchestrator: Lab, settings: SshSettings) -> Iterator[SshExecutor]:
    """An executor that reaches the lab."""
    executor = SshExecutor(settings, orchestrator.addresses, agents=agents)
    yield executor
    executor.close()


@pytest.fixture
def plain(orchestrator: Lab, settings: SshSettings) -> Iterator[SshExecutor]:
    """One without agents."""
    executor = SshExecutor(settings, orchestrator.addresses, agents=False)
    yield executor
    executor.close()


@contextlib.contextmanager
def reaching(settings: SshSettings, addresses: dict[str, str], *, agents: bool = True) -> Iterator[SshExecutor]:
    """An executor for settings of the test's own."""
    executor = SshExecutor(settings, addresses, agents=agents)
    try:
        yield executor
    finally:
        executor.close()


def lingering(token: str, host: str = "h1", *, timeout_s: float = 60) -> Command:
    """Runs for a minute and can be found by its token."""
    return Command(host, ("sleep", "60"), timeout_s, ((TOKEN_NAME, token),))


def test_killed_sshd_session_is_lost_and_ends_the_command(executor: SshExecutor, orchestrator: Lab) -> None:
    """When the session's process dies, its commands are lost, and nothing of them stays on the host."""
    token = f"killed-session-{os.getpid()}"
    tickets = [executor.start(lingering(token)) for _ in range(3)]
    assert until(lambda: len(running_with(token)) == 3)
    for pid in orchestrator.sshd["h1"].sessions():
        os.kill(pid, signal.SIGKILL)
    for happened in collected(executor, tickets).values():
        (last,) = happened
        assert isinstance(last, Lost)
        assert str(last.error).startswith("h1: waiting for sleep: connection lost")
    assert until(lambda: not processes_with(token)), processes_with(token)
    assert run_once(executor, Command("h1", ("true",), 10)).exit_status == 0


def test_killed_wrapper_is_lost_and_no_number(executor: SshExecutor, agents: bool, orchestrator: Lab) -> None:
    """paramiko's exit status -1 never becomes a result."""
    token = f"killed-wrapper-{os.getpid()}"
    ticket = executor.start(lingering(token))
    assert until(lambda: bool(running_with(token)))
    (session,) = orchestrator.sshd["h1"].sessions()
    (wrapper,) = children(session)
    os.kill(wrapper, signal.SIGKILL)
    for pid in processes_of(token):
        os.kill(pid, signal.SIGKILL)
    ((last,),) = collected(executor, [ticket]).values()
    assert isinstance(last, Lost)
    killed = "agent" if agents else "command's shell"
    assert str(last.error) == f"h1: waiting for sleep: the {killed} on the host was killed"


def test_killed_orchestrator_leaves_nothing_on_hosts(agents: bool, orchestrator: Lab, tmp_path: Path) -> None:
    """SIGKILL of the orchestrator ends its commands on the hosts."""
    token = f"killed-orchestrator-{os.getpid()}"
    program = tmp_path / "orchestrator.py"
    program.write_text(
        "from fabric.hosts.ssh import SshExecutor\n"
        "from fabric.model.probe import Command\n"
        "from fabric.model.inventory import SshSettings\n"
        f"executor = SshExecutor({orchestrator.settings()!r}, {orchestrator.addresses!r}, agents={agents})\n"
        f"for host in ('h1', 'h2'):\n"
        f"    executor.start(Command(host, ('sleep', '60'), 70, (({TOKEN_NAME!r}, {token!r}),)))\n"
        "executor.wait(executor.now() + 60)\n"
    )
    with subprocess.Popen((sys.executable, str(program)), env=own_environment()) as process:
        assert until(lambda: len(running_with(token)) == 2)
        process.send_signal(signal.SIGKILL)
    assert until(lambda: not processes_with(token)), processes_with(token)


def test_frozen_sshd_is_lost_soon_after_the_deadline(executor: SshExecutor, orchestrator: Lab) -> None:
    """A host that hangs costs a command its deadline and the grace, no more; other hosts go on meanwhile."""
    server = orchestrator.sshd["h2"]
    assert run_once(executor, Command("h2", ("true",), 10)).exit_status == 0
    server.freeze()
    try:
        begun_s = executor.now()
        frozen = executor.start(Command("h2", ("true",), 1))
        assert run_once(executor, Command("h1", ("true",), 10)).exit_status == 0
        ((last,),) = collected(executor, [frozen]).values()
    finally:
        server.thaw()
    assert isinstance(last, Lost)
    assert isinstance(last.error, HostUnreachable)
    assert last.at_s - begun_s < 9 * SLOWER  # 1 s and 6 s of grace
    assert run_once(executor, Command("h2", ("true",), 10)).exit_status == 0


def test_cut_cable_is_noticed_without_a_word(executor: SshExecutor, orchestrator: Lab) -> None:
    """A host that vanishes from the network is noticed by TCP keepalive, in about 11 s, long before the deadline."""
    token = f"cut-{os.getpid()}"
    ticket = executor.start(lingering(token, "h3", timeout_s=59))
    assert until(lambda: bool(running_with(token)))
    begun_s = executor.now()
    orchestrator.namespaces.cut("h3")
    try:
        ((last,),) = collected(executor, [ticket]).values()
    finally:
        orchestrator.namespaces.join("h3")
        for pid in processes_of(token):
            os.kill(pid, signal.SIGKILL)
    assert isinstance(last, Lost)
    assert "connection lost" in str(last.error)
    assert last.at_s - begun_s < 25 * SLOWER


def test_refused_connection_and_unknown_name_are_said_plainly(orchestrator: Lab, settings: SshSettings) -> None:
    """The operator reads what is wrong, not an errno."""
    addresses = {"closed": orchestrator.sshd["h1"].address, "nameless": "no-such-host.invalid"}
    with reaching(dataclasses.replace(settings, port=2222), addresses) as executor:
        with pytest.raises(HostUnreachable, match=r"connection refused by .* port 2222; is sshd running there"):
            run_once(executor, Command("closed", ("true",), 5))
        with pytest.raises(HostUnreachable, match=r"name does not resolve: no-such-host\.invalid"):
            run_once(executor, Command("nameless", ("true",), 5))
        with pytest.raises(HostUnreachable, match="no address is known"):
            run_once(executor, Command("stranger", ("true",), 5))


def test_wrong_key_is_refused_once_and_remembered(orchestrator: Lab, settings: SshSettings, tmp_path: Path) -> None:
    """Authentication is never tried again: 24 commands cost one attempt."""
    make_key(tmp_path / "wrong")
    log = orchestrator.sshd["h1"].folder / "log"
    before = log.read_text().count("\n")
    with reaching(dataclasses.replace(settings, key_file=str(tmp_path / "wrong")), orchestrator.addresses) as executor:
        tickets = [executor.start(Command("h1", ("true",), 5)) for _ in range(24)]
        for happened in collected(executor, tickets).values():
            (last,) = happened
            assert isinstance(last, Lost)
            assert f"authentication failed for user root with key {tmp_path}/wrong" in str(last.error)
    assert log.read_text().count("\n") - before <= 1


def test_key_of_the_agent_is_used_by_many_at_once(
    orchestrator: Lab, settings: SshSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without key file the agent signs, for several hosts at a time."""
    socket_path = tmp_path / "agent"
    argv = ("ssh-agent", "-D", "-a", str(socket_path))
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as agent:
        try:
            assert until(socket_path.exists)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))
            subprocess.run(("ssh-add", "-q", str(orchestrator.key_file)), check=True, timeout=10, capture_output=True)
            by_agent = dataclasses.replace(settings, key_file=None, agent=True)
            addresses = {f"{host}-{n}": orchestrator.addresses[host] for host in orchestrator.sshd for n in range(8)}
            with reaching(by_agent, addresses) as executor:
                tickets = [executor.start(Command(host, ("true",), 20)) for host in addresses]
                ends = [last for (last,) in collected(executor, tickets).values()]
            assert [end for end in ends if not isinstance(end, Ended)] == []
        finally:
            agent.terminate()


def test_forty_commands_share_one_session(orchestrator: Lab, settings: SshSettings) -> None:
    """With an agent all commands of a host go over one channel of one connection."""
    with reaching(settings, orchestrator.addresses) as executor:
        tickets = [executor.start(Command("h1", ("sleep", "0.3"), 30)) for _ in range(40)]
        ends = [last for (last,) in collected(executor, tickets).values()]
        assert [end for end in ends if not isinstance(end, Ended)] == []
        (session,) = orchestrator.sshd["h1"].sessions()
        assert len(children(session)) == 1


def test_more_commands_than_channels_wait_their_turn(plain: SshExecutor, orchestrator: Lab) -> None:
    """Of forty at once 32 fit on four connections of eight, which are opened one by one; the rest follow."""
    tickets = [plain.start(Command("h1", ("sleep", "6"), 30)) for _ in range(40)]
    assert until(lambda: len(orchestrator.sshd["h1"].sessions()) == 4)
    ends = [last for (last,) in collected(plain, tickets).values()]
    assert [end for end in ends if not isinstance(end, Ended)] == []
    assert len(orchestrator.sshd["h1"].sessions()) == 4


def test_login_shell_that_runs_nothing_is_no_answer(orchestrator: Lab, settings: SshSettings, tmp_path: Path) -> None:
    """A forced command, or a nologin shell, is not mistaken for the tool; its words reach the operator."""
    forced = orchestrator.server(
        "h3", name="forced", more="Port 2223\nForceCommand echo closed for maintenance; exit 1"
    )
    forced.start(port=2223)
    try:
        known = tmp_path / "known"
        known.write_text(f"[{forced.address}]:2223 {forced.public_key()}\n")
        other = dataclasses.replace(settings, port=2223, known_hosts=(str(known),))
        with reaching(other, orchestrator.addresses) as executor, pytest.raises(HostUnreachable) as caught:
            run_once(executor, Command("h3", ("true",), 5))
        assert "the command's shell on the host ended with 1" in caught.value.cause
        assert "closed for maintenance" in caught.value.cause
    finally:
        forced.stop()


def test_login_shell_that_prints_before_all_else_is_no_harm(
    executor: SshExecutor, agents: bool, orchestrator: Lab
) -> None:
    """What ~/.bashrc says, on both streams, is neither the agent's nor a tool's."""
    start_up = orchestrator.folder / "home" / ".bashrc"
    start_up.write_text("echo Welcome to this host; echo mind the gap >&2; printf '$ '\n")
    try:
        result = run_once(executor, Command("h1", ("sh", "-c", "echo out; echo err >&2"), 10))
    finally:
        start_up.unlink()
    if agents:  # plainly, every command is led by those words
        assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.stdout.endswith("out\n")


def test_server_with_few_sessions_is_used_within_its_limit(
    orchestrator: Lab, settings: SshSettings, tmp_path: Path
) -> None:
    """A lower MaxSessions is learnt from the server's refusal; all commands are still answered."""
    narrow = orchestrator.server("h3", name="narrow", more="Port 2224\nMaxSessions 2")
    narrow.start(port=2224)
    try:
        known = tmp_path / "known"
        known.write_text(f"[{narrow.address}]:2224 {narrow.public_key()}\n")
        other = dataclasses.replace(settings, port=2224, known_hosts=(str(known),))
        with reaching(other, orchestrator.addresses, agents=False) as executor:
            tickets = [executor.start(Command("h3", ("sleep", "0.2"), 30)) for _ in range(12)]
            ends = [last for (last,) in collected(executor, tickets).values()]
        assert [end for end in ends if not isinstance(end, Ended)] == []
    finally:
        narrow.stop()


def test_idle_connection_that_died_is_replaced(executor: SshExecutor, orchestrator: Lab) -> None:
    """A connection lost between commands costs the next command nothing."""
    for _ in range(3):
        assert run_once(executor, Command("h1", ("true",), 10)).exit_status == 0
        for pid in orchestrator.sshd["h1"].sessions():
            os.kill(pid, signal.SIGKILL)
        assert until(lambda: not orchestrator.sshd["h1"].sessions())  # its end of the connection is closed by then


def test_close_interrupts_connecting(orchestrator: Lab, settings: SshSettings) -> None:
    """Closing does not wait for hosts that never answer."""
    orchestrator.namespaces.cut("h3")
    try:
        executor = SshExecutor(settings, orchestrator.addresses)
        ticket = executor.start(Command("h3", ("true",), 5))
        begun_s = time.monotonic()
        executor.close()
        assert time.monotonic() - begun_s < 10 * SLOWER
        ((last,),) = collected(executor, [ticket]).values()
        assert isinstance(last, Lost)
    finally:
        orchestrator.namespaces.join("h3")


def processes_of(token: str) -> list[int]:
    """Process ids that have *token* in their environment."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
