"""Many questions at once: each answered, and bounded."""

from __future__ import annotations

import pytest

from fabric.checks.ask import IN_FLIGHT_MOST, PER_HOST_MOST, TIMEOUTS_MOST, ask_all
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable
from fabric.model.command import Command
from fabric.ports import Ticket
from tests.engine.scripted import ScriptedExecutor

ARGVS = [("say", str(number)) for number in range(8)]


class Counting(ScriptedExecutor):
    """Each command ends, or is lost by *error*, a moment later; keeps count of what is open."""

    def __init__(self, error: ExecutorError | None = None) -> None:
        super().__init__(lambda command: (0.1, error or command.argv[1]))
        self.most_open = self.most_per_host = 0

    def start(self, command: Command) -> Ticket:
        """Count it."""
        ticket = super().start(command)
        hosts = [one.host for one in self.open]
        self.most_open = max(self.most_open, len(hosts))
        self.most_per_host = max(self.most_per_host, hosts.count(command.host))
        return ticket


def test_bounds_are_kept() -> None:
    """A few at a time on one host, not too many in all."""
    executor = Counting()
    answers = ask_all(executor, {f"h{number}": ARGVS for number in range(200)})
    assert executor.most_open == IN_FLIGHT_MOST
    assert executor.most_per_host <= PER_HOST_MOST
    assert all(len(one) == len(ARGVS) for one in answers.values())
    few = Counting()
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
    executor = Counting(error)
    answers = ask_all(executor, {"a": ARGVS})["a"]
    assert len(executor.commands) == asked
    assert set(answers) == set(ARGVS)
    assert all(one.lost and "a:" not in one.lost for one in answers.values())
