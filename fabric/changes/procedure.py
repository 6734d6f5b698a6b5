"""Procedures: steps that take time, written as generators that yield commands and are sent the answers.

Whoever runs a procedure (a Conductor over an executor, a test) carries out each step that it yields and sends back the
result: for a Command the CommandResult (or the ExecutorError is thrown in), for a Pause the time in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, TypeVar

from fabric.errors import ExecutorError, ToolError
from fabric.model.change import Argv
from fabric.model.probe import MIB, Command, CommandResult
from fabric.ports import Executor, Happening, Lost, Ready, Ticket

ASK_S = 20.0
"""Deadline of a command that changes or reads one thing (seconds; choice: mlxlink takes up to about 5)."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until *until_s* of the executor's clock, or until told to stop; the time is sent back."""

    until_s: float


Step = Command | Pause

T = TypeVar("T")

Procedure = Generator[Step, Any, T]
"""Yields Steps, returns T. *Any* is what is sent in: CommandResult for a Command, float for a Pause."""


def ask(host: str, argv: Argv, *, timeout_s: float = ASK_S, output_cap_bytes: int = MIB) -> Procedure[CommandResult]:
    """Run one command and return its result, whatever the exit status. Raises ExecutorError when there is none."""
    answer = yield Command(host, argv, timeout_s, output_cap_bytes=output_cap_bytes)
    assert isinstance(answer, CommandResult)
    return answer


Text = tuple[str, str, int]
"""The arguments of a tool's reader: stdout, stderr, exit status."""


def plainly(host: str, argv: Argv, *, timeout_s: float = ASK_S) -> Procedure[Text]:
    """
    Run a command that only reads, without becoming root.

    Raises ToolError when its output was cut, ExecutorError when there is none.
    """
    result = yield from ask(host, argv, timeout_s=timeout_s)
    if result.truncated:
        raise ToolError(f"{host}: {argv[0]} printed more than can be kept")
    return result.stdout, result.stderr, result.exit_status


def pause(until_s: float) -> Procedure[float]:
    """Wait; return the time at which the pause ended."""
    now_s = yield Pause(until_s)
    assert isinstance(now_s, float)
    return now_s


def pause_for(seconds: float) -> Procedure[float]:
    """Wait for *seconds* from now."""
    now_s = yield from pause(0.0)
    return (yield from pause(now_s + seconds))


def whole_pause(until_s: float, *, unless: Callable[[], bool]) -> Procedure[float]:
    """Wait to the end even when all pauses are woken; only *unless* ends it early."""
    now_s = yield from pause(until_s)
    while now_s < until_s and not unless():
        now_s = yield from pause(until_s)
    return now_s


def awaited(look: Callable[[], Procedure[str]], *, until_s: float, pause_s: float) -> Procedure[tuple[str, float]]:
    """
    Call *look* until nothing is wrong, or until *until_s*.

    Returns what was wrong last (else empty), and when the last look began. While routes change a question may well be
    lost, so an error counts as "not yet".
    """
    now_s = yield from pause(0.0)
    while True:
        try:
            wrong = yield from look()
        except (ToolError, ExecutorError) as exc:
            wrong = str(exc).partition("\n")[0]
        if not wrong or now_s >= until_s:
            return wrong, now_s
        now_s = yield from pause(min(now_s + pause_s, until_s))


def driven(
    steps: Procedure[T], waiting: Callable[[float], Procedure[float]], *, until: Callable[[], bool] = lambda: False
) -> Procedure[T | None]:
    """Run *steps* with *waiting* in place of every pause; return None when *until* becomes true between two steps."""
    answer: Any = None
    error: ExecutorError | None = None
    while not until():
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = error = None
        if isinstance(step, Pause):
            answer = yield from waiting(step.until_s)
            continue
        try:
            answer = yield step
        except ExecutorError as exc:
            error = exc
    return None


@dataclass(slots=True, eq=False)
class _Task:
    procedure: Procedure[None]
    pause_until_s: float = inf
    asked: Command | None = None
    silence: Silence | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """A procedure without an answer since *since_s*, when it asked *command*; later questions were lost, too."""

    procedure: Procedure[None]
    command: Command
    since_s: float


class Conductor:
    """
    Carries out procedures over one executor; ``take``, ``fire`` and ``wake`` advance them.

    An error that a procedure raises reaches the caller that advanced it; the other procedures can go on.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asked: dict[Ticket, _Task] = {}
        self._pausing: list[_Task] = []

    @property
    def at_work(self) -> int:
        """How many procedures have not ended."""
        return len(self._asked) + len(self._pausing)

    @property
    def busy(self) -> bool:
        """Whether some procedure has not ended."""
        return self.at_work > 0

    @property
    def next_s(self) -> float:
        """When the next pause ends; infinite when there is none."""
        return min((task.pause_until_s for task in self._pausing), default=inf)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """The procedures that wait for an answer, or got none to their last question."""
        tasks = [*self._asked.values(), *self._pausing]
        return tuple(task.silence for task in tasks if task.silence is not None)

    def asked(self, ticket: Ticket) -> tuple[Procedure[None], Command] | None:
        """Return the procedure that asked a running command, and the command; None for a ticket of somebody else."""
        task = self._asked.get(ticket)
        return None if task is None or task.asked is None else (task.procedure, task.asked)

    def give_up(self, procedure: Procedure[None], error: ExecutorError) -> None:
        """
        Cancel the command that a procedure waits for and throw *error* into it; do nothing when it waits for none.
        """
        for ticket, task in list(self._asked.items()):
            if task.procedure is procedure:
                del self._asked[ticket]
                self._executor.cancel(ticket)
                self._move(task, task.procedure.throw, error)

    def drop(self) -> None:
        """End every procedure where it is, and cancel what it asked."""
        tasks = [*self._asked.values(), *self._pausing]
        for ticket in self._asked:
            self._executor.cancel(ticket)
        self._asked.clear()
        self._pausing.clear()
        for task in tasks:
            task.procedure.close()

    def begin(self, procedure: Procedure[None]) -> None:
        """Start a procedure."""
        self._move(_Task(procedure), procedure.send, None)

    def take(self, happening: Happening) -> bool:
        """Advance by one happening; return False when it belongs to somebody else."""
        if isinstance(happening, Ready):
            return happening.ticket in self._asked
        task = self._asked.pop(happening.ticket, None)
        if task is None:
            return False
        if isinstance(happening, Lost):
            self._move(task, task.procedure.throw, happening.error)
        else:
            task.silence = None
            self._move(task, task.procedure.send, happening.result)
        return True

    def fire(self) -> None:
        """Resume the procedures whose pause is over."""
        now_s = self._executor.now()
        for task in [one for one in self._pausing if one.pause_until_s <= now_s]:
            self._resume(task)

    def wake(self) -> None:
        """End every pause now, so that procedures see what they were signalled."""
        for task in list(self._pausing):
            self._resume(task)

    def _resume(self, task: _Task) -> None:
        self._pausing.remove(task)
        self._move(task, task.procedure.send, self._executor.now())

    def _move(self, task: _Task, way: Callable[[Any], Step], answer: Any) -> None:
        """Resume a procedure, by sending or throwing it an answer, and carry out its next step."""
        try:
            step = way(answer)
        except StopIteration:
            return
        if isinstance(step, Pause):
            task.pause_until_s = step.until_s
            self._pausing.append(task)
        else:
            task.asked = step
            if task.silence is None:
                task.silence = Silence(task.procedure, step, self._executor.now())
            self._asked[self._executor.start(step)] = task


_LOOK_UP_S = 60.0


def carry_out(procedures: Iterable[Procedure[None]], executor: Executor, *, most: int | None = None) -> None:
    """Run all procedures, at most *most* at once; each ends by itself, because each of its steps has a limit."""
    conductor, left = Conductor(executor), iter(procedures)
    while True:
        begun = list(islice(left, None if most is None else most - conductor.at_work))
        for procedure in begun:
            conductor.begin(procedure)
        if not conductor.busy and not begun:
            return
        for happening in executor.wait(min(conductor.next_s, executor.now() + _LOOK_UP_S)) if conductor.busy else ():
            conductor.take(happening)
        conductor.fire()
