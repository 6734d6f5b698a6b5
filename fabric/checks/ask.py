"""Asks many hosts many things at the same time, within bounds; what each answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from fabric.changes.procedure import Procedure, ask, carry_out
from fabric.errors import CommandTimeout, ExecutorError, ToolError
from fabric.model.command import Command, CommandResult
from fabric.ports import Executor
from fabric.tools.driver import complaint, plain

Argv = tuple[str, ...]
Read = TypeVar("Read")

IN_FLIGHT_MOST = 256
"""Commands at the same time over all hosts; a choice: a thread each over SSH."""
PER_HOST_MOST = 3
"""Commands at the same time on one host; a choice, far below the 10 sessions that sshd allows."""
TIMEOUT_S = 15.0
"""Deadline of one command; a choice: the slowest asked here, nvidia-smi without persistence, takes a few seconds."""
TIMEOUTS_MOST = 3
"""After so many deadlines a host is asked nothing more."""
OUTPUT_MOST_BYTES = 256 << 10
"""Of one command; what eight RNICs tell of RoCE is 50 KiB (choice: twice that of sixteen)."""

_MOST = 160  # characters of a quoted line


@dataclass(frozen=True, slots=True)
class HostAnswer(CommandResult):
    """How one command ended; *lost* says why there is no answer, and is empty when there is one."""

    lost: str = ""

    @property
    def text(self) -> str:
        """Both streams without colours, for tools that do not care which one they use."""
        return plain(f"{self.stdout}\n{self.stderr}")

    @property
    def absent(self) -> bool:
        """The program is not there, or not the libraries it needs."""
        return not self.lost and self.exit_status == 127


Answers = Mapping[Argv, HostAnswer]
"""All that one host answered, by the command."""


def quoted(text: str) -> str:
    """Text of a host as a finding may quote it: one line, cut at 160 characters, and always encodable."""
    line = " ".join(plain(text).split())
    shown = line.encode("utf-8", "replace").decode("utf-8")
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}..."


def excuse(answer: HostAnswer) -> str:
    """Why an answer cannot be used: it was lost, or the line in which the tool complains."""
    if answer.lost:
        return quoted(answer.lost)
    return f"exit {answer.exit_status}: {quoted(complaint(answer.stdout, answer.stderr))}"


def parsed(answer: HostAnswer, parse: Callable[[str, str, int], Read], what: str, unread: list[str]) -> Read | None:
    """What a parser makes of an answer; None, and a line in *unread*, when there is nothing to use."""
    if answer.lost:
        unread.append(f"{what}: {quoted(answer.lost)}")
        return None
    try:
        return parse(answer.stdout, answer.stderr, answer.exit_status)
    except ToolError as exc:
        unread.append(f"{what}: {quoted(str(exc))}")
        return None


def ask_all(
    executor: Executor,
    asked: Mapping[str, Sequence[Argv]],
    *,
    in_flight: int = IN_FLIGHT_MOST,
    timeout_s: float = TIMEOUT_S,
    output_most_bytes: int = OUTPUT_MOST_BYTES,
) -> dict[str, dict[Argv, HostAnswer]]:
    """
    Every command on its host, each once; there is an answer for every one.

    A host that cannot be reached, or lets too many deadlines pass, is asked nothing more: the rest is lost for the
    same reason.
    """
    answers: dict[str, dict[Argv, HostAnswer]] = {host: {} for host in asked}
    left = {host: deque(dict.fromkeys(argvs)) for host, argvs in asked.items()}
    limits = timeout_s, output_most_bytes
    turns = (_turn(host, argvs, answers[host], *limits) for host, argvs in left.items() for _ in range(PER_HOST_MOST))
    carry_out(turns, executor, most=in_flight)
    return answers


def _turn(
    host: str, left: deque[Argv], answers: dict[Argv, HostAnswer], timeout_s: float, most_bytes: int
) -> Procedure[None]:
    """Ask what is left, one after the other; several such turns share it."""
    late = f"no answer within {timeout_s:g} s"
    while left:
        argv = left.popleft()
        try:
            result = yield from ask(host, argv, timeout_s=timeout_s, output_cap_bytes=most_bytes)
        except ExecutorError as exc:
            timed_out = isinstance(exc, CommandTimeout)
            why = late if timed_out else str(exc).removeprefix(f"{host}: ")  # findings are folded over hosts
            answers[argv] = _unanswered(host, argv, why)
            if not timed_out or [one.lost for one in answers.values()].count(late) >= TIMEOUTS_MOST:
                answers.update((one, _unanswered(host, one, why)) for one in left)
                left.clear()
        else:
            answers[argv] = HostAnswer(**{field.name: getattr(result, field.name) for field in fields(result)})


def _unanswered(host: str, argv: Argv, why: str) -> HostAnswer:
    return HostAnswer(Command(host, argv, TIMEOUT_S), -1, "", "", 0.0, 0.0, lost=why)
