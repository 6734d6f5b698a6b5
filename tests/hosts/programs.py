"""The programs that the contract of executors runs, what differs between backends, and what happened to commands."""

import secrets
import socket
import sys
from collections.abc import Iterable

import pytest

from benchmarks.lab.processes import TOKEN_NAME, processes_with, running_with, until
from fabric.model.probe import Command
from fabric.ports import Ended, Executor, Happening, Lost, Ticket

Argv = tuple[str, ...]

_SERVER = """
import socket, sys, time
time.sleep(float(sys.argv[2]))
listener = socket.create_server(("", int(sys.argv[1])))
print("serving", flush=True)
time.sleep(60)
"""
_STUBBORN = "trap '' TERM HUP INT; sh -c \"trap '' TERM; sleep 61\" & sleep 62; sleep 63"


class Programs:
    """Override what differs; a program that a backend cannot have is None, and its tests are skipped with *absent*."""

    host = "localhost"
    dead_host: str | None = None
    absent = "no meaning for this backend"
    begun = "begun\n"  # what lingers() prints first
    cancelled = 143  # 128 + TERM, the status of what was cancelled
    listen_s = 0.6  # how long serves() takes to listen

    def nothing(self) -> Argv:
        """Ends at once with 0."""
        return ("true",)

    def exits(self, status: int) -> Argv | None:
        """Ends with *status*."""
        return ("sh", "-c", f"exit {status}")

    def signalled(self, number: int) -> Argv | None:
        """Is ended by a signal."""
        return ("sh", "-c", f"kill -{number} $$")

    def says(self, text: str) -> Argv | None:
        """Prints *text* and a newline."""
        return ("echo", text)

    def repeats(self, words: Argv) -> Argv | None:
        """Prints its arguments as JSON."""
        return (sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words)

    def floods(self, stdout_bytes: int, stderr_bytes: int) -> Argv | None:
        """Prints so many bytes, stderr first."""
        text = "import sys; sys.stderr.write('e' * int(sys.argv[2])); sys.stdout.write('o' * int(sys.argv[1]))"
        return (sys.executable, "-I", "-c", text, str(stdout_bytes), str(stderr_bytes))

    def lingers(self) -> Argv | None:
        """Says so and then runs for a minute."""
        return ("sh", "-c", "echo begun; exec sleep 60")

    def stubborn(self) -> Argv | None:
        """Ignores TERM, and so do its child and grandchild."""
        return ("sh", "-c", _STUBBORN)

    def leaves_child(self) -> Argv | None:
        """Ends with 3 at once but leaves a child that holds stdout."""
        return ("sh", "-c", "sleep 64 & echo begun; exit 3")

    def shows_variable(self, name: str) -> Argv | None:
        """Prints an environment variable, without newline."""
        return (sys.executable, "-I", "-c", "import os, sys; sys.stdout.write(os.environ[sys.argv[1]])", name)

    def serves(self, port: int, after_s: float) -> Argv | None:
        """Listens on a TCP port after a while, for a minute."""
        return (sys.executable, "-I", "-c", _SERVER, str(port), str(after_s))

    def free_port(self) -> int:
        """A TCP port of the host that nobody listens on."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    def left(self, token: str) -> list[str]:
        """Processes on the hosts that carry *token*."""
        return processes_with(token)

    def command(
        self,
        argv: Argv | None,
        *,
        host: str | None = None,
        timeout_s: float = 30,
        env: tuple[tuple[str, str], ...] = (),
        ready_port: int | None = None,
        output_cap_bytes: int = 1 << 20,
    ) -> Command:
        """A command for the host under test; skips the test when the backend has no such program."""
        if argv is None:
            pytest.skip(self.absent)
        return Command(host or self.host, argv, timeout_s, env, ready_port, output_cap_bytes)

    def marked(self, argv: Argv | None, *, timeout_s: float, ready_port: int | None = None) -> tuple[str, Command]:
        """A command whose descendants can be found again by a token in their environment."""
        token = secrets.token_hex(12)
        return token, self.command(argv, timeout_s=timeout_s, env=((TOKEN_NAME, token),), ready_port=ready_port)

    def let_begin(self, executor: Executor, token: str) -> None:
        """Go on once lingers() with *token* has said that it begun, which it has when it is the sleep."""
        assert until(lambda: any(line.startswith("sleep\0") for line in running_with(token)))


def collected(executor: Executor, tickets: Iterable[Ticket], *, timeout_s: float = 60) -> dict[Ticket, list[Happening]]:
    """Everything that happened to *tickets* until each has ended, and a moment longer to catch a second end."""
    happened: dict[Ticket, list[Happening]] = {ticket: [] for ticket in tickets}
    until_s = executor.now() + timeout_s
    while not all(any(isinstance(one, Ended | Lost) for one in ones) for ones in happened.values()):
        assert executor.now() < until_s, happened
        for one in executor.wait(until_s):
            happened[one.ticket].append(one)
    for one in executor.wait(executor.now() + 0.05):
        happened[one.ticket].append(one)
    return happened
