"""
Asks every host of a probe that ended badly for one word.

A tool that runs on several hosts is started on one, and what it says of a host that froze or died reads like a bad
fabric: a time-out, a broken connection. Who does not answer is to blame, and nothing is said of the fabric.

The word may be its own name, where a tool names hosts otherwise than the inventory does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabric.errors import ExecutorError
from fabric.model.command import Command, CommandResult

WORDS = ("echo", "present")
"""What each host is asked to say; any program that is everywhere would do."""

NAME_WORDS = ("uname", "-n")
"""What each host is asked for its own name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\n", re.ASCII)

ANSWER_S = 15.0
"""A host that does not answer within this is missing (seconds); a choice, as long as a connection may take."""


class RollCall:
    """
    One call of some hosts; *missing* is the first that did not answer as it must, and what it did instead.

    With *names* each says its own name, which is put there by its name in the inventory.
    """

    def __init__(self, hosts: Sequence[str], names: dict[str, str] | None = None) -> None:
        self._hosts = tuple(hosts)
        self._names = names
        self._words = WORDS if names is None else NAME_WORDS
        self.missing: tuple[str, str] | None = None

    def commands(self) -> Iterator[Command]:
        """One for each host."""
        for host in self._hosts:
            yield Command(host, self._words, ANSWER_S)

    def ended(self, result: CommandResult) -> None:
        """A host said something."""
        host, said = result.command.host, result.stdout
        if self._names is not None:  # whatever it says, it is there
            if result.exit_status == 0 and _NAME.fullmatch(said):
                self._names[host] = said.rstrip("\n")
        elif (result.exit_status, said) != (0, f"{WORDS[1]}\n"):
            said = said or result.stderr
            self._miss(host, f"{host}: {' '.join(self._words)}: exit {result.exit_status}: {said[:80]!r}")

    def lost(self, command: Command, error: ExecutorError) -> None:
        """A host said nothing."""
        self._miss(command.host, str(error))

    def _miss(self, host: str, why: str) -> None:
        if self.missing is None:
            self.missing = host, why
