"""Many questions at once: each answered, and bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fabric.checks.ask import IN_FLIGHT_MOST, PER_HOST_MOST, TIMEOUTS_MOST, ask_all
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Happening, Lost, Ticket

ARGVS = [("say", str(number)) for number in range(8)]


class Scripted:
    """Ends everything that is open, one wait later; keeps count. *error*: what becomes of commands instead."""

    def __init__(self, error: ExecutorError | None = None) -> None:
        self.error = error
        self.open: dict[Ticket, Command] = {}
        self.started: list[Command] = []
        self.most_open = self.most_per_host = 0
        self._now_s = 0.0

    def now(self) -> float:
        """Its own clock."""
        return self._now_s

    def start(self, command: Command) -> Ticket:
        """Note it."""
        self.started.append(command)
        self.open[len(self.started)] = command
        self.most_open = max(self.most_open, len(self.open))
        hosts = [one.host for one in self.open.values()]
        self.most_per_host = max(self.most_per_host, hosts.count(command.host))
        return len(self.started)

    def cancel(self, ticket: Ticket) -> None:
        """Nobody does."""

    def wait(self, until_s: float) -> Sequence[Happening]:
        """The oldest ends."""
        if not self.open:
            self._now_s = until_s
            return []
        self._now_s += 0.1
        ticket = next(iter(self.open))
        command = self.open.pop(ticket)
        if self.error is not None:
            return [Lost(ticket, self.error, self._now_s)]
        return [Ended(ticket, CommandResult(command, 0, command.argv[1], "", self._now_s, self._now_s))]

    def wake(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing to close."""


def test_bounds_are_kept() -> None:
    """A few at a time on one host, not too many in all."""
    executor = Scripted()
    answers = ask_all(executor, {f"h{number}": ARGVS for number in range(200)})
    assert executor.most_open == IN_FLIGHT_MOST
    assert executor.most_per_host <= PER_HOST_MOST
    assert all(len(one) == len(ARGVS) for one in answers.values())
    few = Scripted()
    ask_all(few, {f"h{number}": ARGVS for number in range(9)}, in_flight=4)
    assert few.most_open == 4


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (HostUnreachable("a", "connect", "refused"), PER_HOST_MOST),
        (CommandTimeout("a", 15.0), PER_HOST_MOST + TIMEOUTS_MOST - 1),
    ],
)
def test_a_host_that_is_gone_is_not_asked_on_and_on(error: ExecutorError, asked: int) -> None:
    """What was not asked is lost for the same reason, which does not name the host."""
    executor = Scripted(error)
    answers = ask_all(executor, {"a": ARGVS})["a"]
    assert len(executor.started) == asked
    assert set(answers) == set(ARGVS)
    assert all(one.lost and "a:" not in one.lost for one in answers.values())
