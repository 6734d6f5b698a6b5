"""One command run to its end, for callers that have nothing else under way."""

from __future__ import annotations

from fabric.errors import HostUnreachable
from fabric.executors.start_time import begins_s
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Executor, Lost

# Every executor answers by the deadline plus connecting (15 s by default, per hop) and its grace; this is beyond all.
_PATIENCE_S = 300.0


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
