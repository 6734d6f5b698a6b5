"""
What stays on hosts when a command ends the hard way: nothing, looked for by listing all processes.

    sudo python benchmarks/left_behind.py [--times 100] [--cables 20] [--hosts 10]

Real sshd in network namespaces, one a host. Each time a command is begun that does not want to end: it ignores TERM,
and so does a child in the background and another in a process group of its own. Then

- killed: the orchestrator is killed (SIGKILL),
- session: the host's sshd session is killed, which cuts the connection,
- deadline: the command's own time is over,
- cable: the host is cut off without a word (it has to find out by itself, which takes 30 s of silence).

Printed for each: how often, after how many seconds the last process had gone, and how many processes were left 60 s
after the event.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.lab.lab import Lab, own_environment  # noqa: E402
from benchmarks.lab.namespaces import inside  # noqa: E402
from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until  # noqa: E402
from fabric.hosts.ssh import SshExecutor  # noqa: E402
from fabric.model.probe import Command  # noqa: E402

LIMIT_S = 60.0
_DEADLINE_S = 2.0
_STUBBORN = "trap '' TERM; sleep 90 & set -m; sleep 91 & wait; wait"
_PROCESSES = 3
_ORCHESTRATOR = """
import sys
from fabric.hosts.ssh import SshExecutor
from fabric.model.probe import Command
from fabric.model.inventory import SshSettings
host, token = sys.argv[1:]
executor = SshExecutor({settings!r}, {addresses!r})
executor.start(Command(host, ("sh", "-c", {stubborn!r}), 80, (({name!r}, token),)))
executor.wait(executor.now() + 80)
"""


class Round:
    """One command on every host, begun, and what became of it."""

    def __init__(self, lab: Lab, number: int) -> None:
        self.lab = lab
        self.tokens = {host: f"stubborn-{os.getpid()}-{number}-{host}-end" for host in lab.namespaces.addresses}

    def begun(self) -> None:
        """Wait until all processes of all commands are there; raises RuntimeError when they never are."""
        for token in self.tokens.values():
            if not until(lambda token=token: len(running_with(token)) >= _PROCESSES, timeout_s=LIMIT_S):
                raise RuntimeError(f"{token} never ran")

    def gone(self, since_s: float) -> tuple[list[float], list[str]]:
        """For each host the seconds from *since_s* until nothing of it was left; and processes left on the others."""
        seconds, waiting = [], dict(self.tokens)
        while waiting and time.monotonic() < since_s + LIMIT_S:
            for host in [host for host, token in waiting.items() if not processes_with(token)]:
                seconds.append(time.monotonic() - since_s)
                del waiting[host]
        return seconds, [line for token in waiting.values() for line in processes_with(token)]


@contextlib.contextmanager
def ours(lab: Lab, one: Round, *, timeout_s: float = 80) -> Iterator[None]:
    """An executor of this process that has begun every command."""
    executor = SshExecutor(lab.settings(), lab.addresses)
    try:
        for host, token in one.tokens.items():
            executor.start(Command(host, ("sh", "-c", _STUBBORN), timeout_s, ((TOKEN_NAME, token),)))
        yield
    finally:
        executor.close()


def killed(lab: Lab, one: Round) -> tuple[list[float], list[str]]:
    """An orchestrator for each host, all killed."""
    text = _ORCHESTRATOR.format(settings=lab.settings(), addresses=lab.addresses, stubborn=_STUBBORN, name=TOKEN_NAME)
    argv = (sys.executable, "-c", text)
    processes = [subprocess.Popen((*argv, host, token), env=own_environment()) for host, token in one.tokens.items()]
    try:
        # The orchestrators' own arguments hold the token, their environments do not.
        one.begun()
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
        since_s = time.monotonic()
        for process in processes:
            process.wait()
    return one.gone(since_s)


def session(lab: Lab, one: Round) -> tuple[list[float], list[str]]:
    """Every host's sshd session killed."""
    with ours(lab, one):
        one.begun()
        for server in lab.sshd.values():
            for pid in server.sessions():
                os.kill(pid, signal.SIGKILL)
        return one.gone(time.monotonic())


def deadline(lab: Lab, one: Round) -> tuple[list[float], list[str]]:
    """Every command's time over; counted from the moment all had begun, so up to a deadline is the command's own."""
    with ours(lab, one, timeout_s=_DEADLINE_S):
        until(lambda: all(running_with(token) for token in one.tokens.values()), timeout_s=_DEADLINE_S)
        return one.gone(time.monotonic())


def cable(lab: Lab, one: Round) -> tuple[list[float], list[str]]:
    """Every host cut off."""
    with ours(lab, one):
        one.begun()
        for host in one.tokens:
            lab.namespaces.cut(host)
        try:
            return one.gone(time.monotonic())
        finally:
            for host in one.tokens:
                lab.namespaces.join(host)


WAYS: dict[str, Callable[[Lab, Round], tuple[list[float], list[str]]]] = {
    "killed": killed,
    "session": session,
    "deadline": deadline,
    "cable": cable,
}


def main() -> None:
    """Each way so often, and what was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="of each way, but for cables")
    parser.add_argument("--cables", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=10, help="at once")
    asked = parser.parse_args()
    hosts = tuple(f"h{n + 1}" for n in range(asked.hosts))
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name, Lab(Path(name), hosts=hosts) as lab:
        number, bad = 0, False
        for way, run in WAYS.items():
            seconds: list[float] = []
            left: list[str] = []
            rounds = -(-(asked.cables if way == "cable" else asked.times) // asked.hosts)
            for _ in range(rounds):
                number += 1
                with inside(lab.namespaces.orchestrator):
                    some, more = run(lab, Round(lab, number))
                seconds += some
                left += more
            bad = bad or bool(left)
            print(
                f"{way:9} {rounds * asked.hosts:4} times: processes left {len(left)}; gone after"
                f" median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s",
                flush=True,
            )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
