"""
Asks every host of a probe that ended badly for one word.

A tool that runs on several hosts is started on one, and what it says of a host that froze or died reads like a bad
fabric: a time-out, a broken connection. Who does not answer is to blame, and nothing is said of the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.errors import ExecutorError
from fabric.model.command import Command, CommandResult

WORDS = ("echo", "present")
"""What each host is asked to say; any program that is everywhere would do."""

ANSWER_S = 15.0
"""A host that does not answer within this is missing (seconds); a choice, as long as a connection may take."""


class RollCall:
    """One call of some hosts; *missing* is the first that did not answer as it must, and what it did instead."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = tuple(hosts)
        self.missing: tuple[str, str] | None = None

    def commands(self) -> Iterator[Command]:
        """One for each host."""
        for host in self._hosts:
            yield Command(host, WORDS, ANSWER_S)

    def ended(self, result: CommandResult) -> None:
        """A host said something."""
        if (result.exit_status, result.stdout) != (0, f"{WORDS[1]}\n"):
            host, said = result.command.host, result.stdout or result.stderr
            self._miss(host, f"{host}: {' '.join(WORDS)}: exit {result.exit_status}: {said[:80]!r}")

    def lost(self, command: Command, error: ExecutorError) -> None:
        """A host said nothing."""
        self._miss(command.host, str(error))

    def _miss(self, host: str, why: str) -> None:
        if self.missing is None:
            self.missing = host, why
