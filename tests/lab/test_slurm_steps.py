"""Backend slurm on real slurmds: the agents of a job's hosts are begun by one srun; nothing of them outlives a run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with
from benchmarks.lab.slurm_site import NEEDED, missing, slurm, slurm_site, until
from fabric.errors import HostUnreachable, SessionLost
from fabric.hosts.slurm import SlurmExecutor
from fabric.model.probe import Command
from fabric.ports import Ended, Lost, run_once
from tests.hosts.contract import ExecutorContract
from tests.hosts.programs import collected

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NODES = [f"gpu{number:03d}" for number in range(1, 9)]


@pytest.fixture(scope="module")
def site(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Eight nodes on which jobs run, for this process and all that it begins."""
    if why := missing(*NEEDED):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm")
    with slurm_site(folder, len(NODES), jobs=True) as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        idle = ("sinfo", "-h", "-t", "idle", "-o", "%D")
        assert until(lambda: slurm(*idle).stdout.strip() == str(len(NODES))), slurm("sinfo", "-N", "-l").stdout
        yield folder


@pytest.fixture(scope="module")
def job(site: Path) -> str:
    """An allocation of all nodes."""
    granted = slurm("salloc", "--no-shell", f"--nodes={len(NODES)}", "--immediate=20")
    assert granted.returncode == 0, granted.stderr
    return slurm("squeue", "-h", "-o", "%i").stdout.split()[0]


class TestStep(ExecutorContract):
    """Commands in a step of a job."""

    host = "gpu002"
    dead_host = "gpu099"

    @pytest.fixture
    def executor(self, job: str) -> Iterator[SlurmExecutor]:
        """A fresh one; neither a thread of it nor a step may outlive it."""
        executor = SlurmExecutor(job)
        yield executor
        executor.close()
        assert until(lambda: not [one.name for one in threading.enumerate() if one.name.startswith("fabric ")])
        assert until(lambda: not steps(job)), steps(job)


def steps(job: str) -> list[str]:
    """The steps of a job that are under way."""
    return slurm("squeue", "-h", "-s", "-j", job, "-o", "%i").stdout.split()


def test_one_step_for_all_hosts(job: str) -> None:
    """Sixty-four commands on eight hosts are one srun, each answered by its own host."""
    executor = SlurmExecutor(job)
    try:
        asked = {
            executor.start(Command(host, ("sh", "-c", 'echo "$SLURMD_NODENAME $SLURM_STEP_ID"'), 30)): host
            for host in NODES * 8
        }
        said = set()
        for ticket, (last,) in collected(executor, asked).items():
            assert isinstance(last, Ended), last
            host, step = last.result.stdout.split()
            assert host == asked[ticket]
            said.add(step)
        assert len(said) == 1
    finally:
        executor.close()


def test_a_host_whose_slurmd_is_away_costs_itself_alone(site: Path, job: str) -> None:
    """Slurm takes back the whole step because of it; without it there is another one, and nothing had begun before."""
    (pid,) = [int((site / "slurmd-gpu005.pid").read_text())]
    os.kill(pid, signal.SIGSTOP)
    executor = SlurmExecutor(job)
    try:
        tickets = {host: executor.start(Command(host, ("echo", host), 30)) for host in NODES}
        happened = collected(executor, tickets.values())
        for host, ticket in tickets.items():
            (last,) = happened[ticket]
            if host == "gpu005":
                assert isinstance(last, Lost)
                assert "gpu005: beginning a step: Slurm cannot begin a step there: " in str(last.error)
            else:
                assert isinstance(last, Ended), last
                assert last.result.stdout == f"{host}\n"
    finally:
        os.kill(pid, signal.SIGCONT)
        executor.close()


def test_a_step_that_is_cancelled_is_said_and_another_begins(job: str) -> None:
    executor = SlurmExecutor(job)
    try:
        lost = executor.start(Command("gpu003", ("sleep", "60"), 70))
        number = run_once(executor, Command("gpu003", ("sh", "-c", "echo $SLURM_STEP_ID"), 20)).stdout.strip()
        slurm("scancel", f"{job}.{number}")
        (last,) = collected(executor, [lost])[lost]
        if isinstance(last, Lost):
            assert isinstance(last.error, SessionLost)
        else:  # Slurm kills all processes of a step: the agent may have told of the command's end before its own
            assert last.result.exit_status == 128 + signal.SIGKILL
        assert run_once(executor, Command("gpu003", ("echo", "again"), 30)).stdout == "again\n"
    finally:
        executor.close()


def test_a_killed_orchestrator_leaves_nothing_behind(job: str) -> None:
    """Neither what it ran nor its step."""
    token = f"step-{os.getpid()}"
    program = (
        "from fabric.hosts.slurm import SlurmExecutor; from fabric.model.probe import Command\n"
        f"e = SlurmExecutor({job!r})\n"
        f"for host in {NODES!r}: e.start(Command(host, ('sleep', '60'), 70, (('{TOKEN_NAME}', '{token}'),)))\n"
        "e.wait(e.now() + 60)"
    )
    with subprocess.Popen((sys.executable, "-c", program)) as orchestrator:
        assert until(lambda: len(running_with(token)) >= len(NODES))
        orchestrator.send_signal(signal.SIGKILL)
    assert until(lambda: not processes_with(token)), processes_with(token)
    assert until(lambda: not steps(job)), steps(job)


def test_who_does_not_know_the_secret_is_sent_away(job: str) -> None:
    """A stranger at the door gets no word of a command, and holds up nobody."""
    executor = SlurmExecutor(job)
    try:
        assert run_once(executor, Command("gpu001", ("true",), 30)).exit_status == 0
        assert executor._door is not None
        with socket.create_connection(("127.0.0.1", executor._door.port), 10) as stranger:
            salt = stranger.recv(100)
            assert len(salt) == 33
            stranger.sendall(f"gpu002 {'0' * 32} {'0' * 64}\n".encode())
            began_s = time.monotonic()
            assert run_once(executor, Command("gpu002", ("echo", "mine"), 30)).stdout == "mine\n"
            assert time.monotonic() - began_s < 10
            assert stranger.recv(100) == b""
    finally:
        executor.close()


def test_a_job_that_is_over_is_said() -> None:
    executor = SlurmExecutor("999999")
    try:
        with pytest.raises(HostUnreachable, match=r"gpu001: beginning a step: .*Invalid job id specified"):
            run_once(executor, Command("gpu001", ("true",), 30))
    finally:
        executor.close()
