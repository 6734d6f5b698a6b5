"""
Steps that take time, written one after the other: a generator that asks for commands and is sent their answers.

Whoever runs a procedure (the engine's loop, ``fabric restore``, a test) carries out each step it yields and sends back
what came of it: for an Ask the CommandResult (or throws the ExecutorError in), for a Pause the time in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from fabric.errors import ExecutorError
from fabric.model.change import Argv
from fabric.model.command import MIB, CommandResult

ASK_S = 20.0
"""Deadline of a command that changes or reads one thing (seconds; choice: mlxlink takes up to about 5)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Run a command on a host; the CommandResult comes back, an ExecutorError is thrown in."""

    host: str
    argv: Argv
    timeout_s: float = ASK_S
    output_cap_bytes: int = MIB


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until *until_s* of the executor's clock, or until told to stop; the time comes back."""

    until_s: float


Step = Ask | Pause

T = TypeVar("T")

Procedure = Generator[Step, Any, T]
"""Yields Steps, returns T. *Any* is what is sent in: CommandResult for an Ask, float for a Pause."""


def ask(host: str, argv: Argv, *, timeout_s: float = ASK_S, output_cap_bytes: int = MIB) -> Procedure[CommandResult]:
    """Run one command; a non-zero exit is an answer. Raises ExecutorError when there is none."""
    answer = yield Ask(host, argv, timeout_s, output_cap_bytes)
    assert isinstance(answer, CommandResult)
    return answer


def pause(until_s: float) -> Procedure[float]:
    """Wait; returns the time at which it went on."""
    now_s = yield Pause(until_s)
    assert isinstance(now_s, float)
    return now_s


def whole_pause(until_s: float, *, unless: Callable[[], bool]) -> Procedure[float]:
    """Wait to the end, also when everybody who pauses is woken; only *unless* ends it early."""
    now_s = yield from pause(until_s)
    while now_s < until_s and not unless():
        now_s = yield from pause(until_s)
    return now_s


def driven(
    steps: Procedure[T], pause_for: Callable[[float], Procedure[float]], *, until: Callable[[], bool] = lambda: False
) -> Procedure[T | None]:
    """The same steps, with *pause_for* in place of every pause; None when *until* says in between that it is enough."""
    answer: Any = None
    error: ExecutorError | None = None
    while not until():
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = error = None
        if isinstance(step, Pause):
            answer = yield from pause_for(step.until_s)
            continue
        try:
            answer = yield step
        except ExecutorError as exc:
            error = exc
    return None
