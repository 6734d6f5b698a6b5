"""A hand-driven executor in simulated time, for engine tests, and a plan without changes that is carried out on it."""

import heapq
from collections.abc import Callable, Sequence

from fabric.changes.kind import Context
from fabric.engine.held_changes import Changing
from fabric.engine.observer import FollowUp, Observer
from fabric.engine.probe_run import WORDS
from fabric.engine.run import Gate, run_plan
from fabric.errors import CommandTimeout, ExecutorError, SessionLost
from fabric.model.change import ChangeSettings
from fabric.model.probe import Command, CommandResult, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import OwnFails
from fabric.plan import Plan
from fabric.ports import Ended, Happening, Lost, Ready, Ticket
from fabric.runs.events import Progress, all_events, history_of
from fabric.runs.journal import JOURNAL, Journal
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher

Script = Callable[[Command], tuple[float, str | ExecutorError | None]]
"""
For a command: seconds until it ends, and its output, with exit status 1 if that begins with "fatal", 137 with "Killed".

Instead of the output None: it never ends by itself; an error: it is lost.
"""


class ScriptedExecutor:
    """Servers are ready after 0.1 s and end with their client's port; everything else is the script's business."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._now_s = 0.0
        self._heap: list[tuple[float, int, Happening]] = []
        self._number = 0
        self.commands: list[Command] = []
        self._open: dict[Ticket, tuple[Command, float]] = {}

    @property
    def open(self) -> list[Command]:
        """What has not ended."""
        return [command for command, _ in self._open.values()]

    def now(self) -> float:
        """Simulated seconds."""
        return self._now_s

    def start(self, command: Command) -> Ticket:
        """Queue what the script says."""
        self.commands.append(command)
        ticket = len(self.commands)
        self._open[ticket] = (command, self._now_s)
        after_s, answer = (0.1, f"{WORDS[1]}\n") if command.argv == WORDS else self._script(command)
        if isinstance(answer, SessionLost) and command.ready_port is not None and after_s > 0.1:
            self._push(self._now_s + 0.1, Ready(ticket, self._now_s + 0.1))
        if isinstance(answer, ExecutorError):
            self._push(self._now_s + after_s, Lost(ticket, answer, self._now_s + after_s))
            return ticket
        if command.ready_port is not None:
            self._push(self._now_s + 0.1, Ready(ticket, self._now_s + 0.1))
        if answer is None or after_s > command.timeout_s:
            timeout = CommandTimeout(command.host, command.timeout_s)
            self._push(self._now_s + command.timeout_s, Lost(ticket, timeout, self._now_s + command.timeout_s))
        else:
            status = 137 if answer.startswith("Killed") else int(answer.startswith("fatal"))
            self._end(ticket, self._now_s + after_s, status, answer)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """End it now, as if by signal 9."""
        if ticket in self._open:
            self._end(ticket, self._now_s, 137, "")

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Jump to the next instant at which something happens."""
        while self._heap:
            at_s = self._heap[0][0]
            if at_s > until_s:
                break
            self._now_s = max(self._now_s, at_s)
            happened = []
            while self._heap and self._heap[0][0] <= self._now_s:
                _, _, happening = heapq.heappop(self._heap)
                if happening.ticket in self._open:
                    if not isinstance(happening, Ready):
                        del self._open[happening.ticket]
                    happened.append(happening)
            if happened:
                return happened
        self._now_s = max(self._now_s, until_s)
        return []

    def wake(self) -> None:
        """Nothing here blocks."""

    def close(self) -> None:
        """Nothing to let go of."""

    def _end(self, ticket: Ticket, at_s: float, exit_status: int, stdout: str) -> None:
        command, started_s = self._open[ticket]
        self._push(at_s, Ended(ticket, CommandResult(command, exit_status, stdout, "", started_s, at_s)))

    def _push(self, at_s: float, happening: Happening) -> None:
        self._number += 1
        heapq.heappush(self._heap, (at_s, self._number, happening))


def carried_out(
    plan: Plan,
    topology: Topology,
    executor: ScriptedExecutor,
    directory: RunDirectory,
    *,
    observer: Observer | None = None,
    gate: Gate = lambda _plan, _results: {},
    follow_ups: Sequence[FollowUp] = (),
    progress: Progress | None = None,
) -> list[ProbeResult]:
    """Every probe's result of a plan without changes; no host is left out for what its own probes say."""
    run_plan(
        plan,
        topology=topology,
        executor=executor,
        directory=directory,
        observer=observer or Watcher(),
        gate=gate,
        changing=Changing(Context(topology, ChangeSettings()), Journal(directory.path / JOURNAL), "test/1", "t"),
        follow_ups=follow_ups,
        progress=progress or Progress(),
        judge_own=lambda _plan, _results: OwnFails({}, frozenset()),
    )
    return list(history_of(all_events(directory.path)).results.values())
