"""When a command may begin, and one command run to its end for callers that have nothing else under way."""

from __future__ import annotations

from fabric.errors import HostUnreachable
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Executor, Lost

MOST_AHEAD_S = 3600.0
"""No start lies further ahead; choice: tests begin together within seconds, so more is a mistake of units."""
# Every executor answers by the deadline plus connecting (15 s by default, per hop) and its grace; this is beyond all.
_PATIENCE_S = 300.0


def begins_s(command: Command, now_s: float) -> float:
    """The time at which a command that is sent at *now_s* begins, by the executor's clock."""
    return now_s if command.start_at_s is None else max(now_s, command.start_at_s)


def check_start(command: Command, now_s: float) -> None:
    """Raise ValueError for a start too far ahead."""
    if command.start_at_s is not None and not command.start_at_s - now_s <= MOST_AHEAD_S:
        ahead_s = command.start_at_s - now_s
        raise ValueError(f"{command.argv[0]!r} is to start in {ahead_s:g} s, more than {MOST_AHEAD_S:g} s ahead")


def run_once(executor: Executor, command: Command) -> CommandResult:
    """
    Start *command*, wait for its answer and return it; raises the ExecutorError it was lost with.

    Happenings of other commands are dropped: the executor must have none running.
    """
    ticket = executor.start(command)
    until_s = begins_s(command, executor.now()) + command.timeout_s + _PATIENCE_S
    while True:
        for happening in executor.wait(until_s):
            if happening.ticket == ticket and isinstance(happening, Ended):
                return happening.result
            if happening.ticket == ticket and isinstance(happening, Lost):
                raise happening.error
        if executor.now() >= until_s:
            executor.cancel(ticket)
            raise HostUnreachable(command.host, f"waiting for {command.argv[0]}", "the executor never answered")
