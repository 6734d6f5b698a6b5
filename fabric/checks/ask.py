"""Asks many hosts many things at the same time, within bounds, and never waits for ever; what each answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from fabric.errors import CommandTimeout, ToolError
from fabric.model.command import Command, CommandResult
from fabric.ports import Ended, Executor, Lost, Ready, Ticket
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
SILENCE_S = 120.0
"""An executor that tells nothing for so long is broken: longer than any connect and any deadline (choice)."""
OUTPUT_MOST_BYTES = 64 << 10

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
    commands = {
        host: [Command(host, argv, timeout_s, output_cap_bytes=output_most_bytes) for argv in dict.fromkeys(argvs)]
        for host, argvs in asked.items()
    }
    return _Asking(executor, commands, in_flight).answers()


class _Asking:
    """One round of questions while it goes on."""

    def __init__(self, executor: Executor, asked: Mapping[str, Sequence[Command]], in_flight: int) -> None:
        self._executor = executor
        self._in_flight = in_flight
        self._left = {host: deque(commands) for host, commands in asked.items()}
        self._turns = deque(host for host, argvs in self._left.items() for _ in range(min(PER_HOST_MOST, len(argvs))))
        self._open: dict[Ticket, Command] = {}
        self._timeouts = dict.fromkeys(self._left, 0)
        self._answers: dict[str, dict[Argv, HostAnswer]] = {host: {} for host in self._left}

    def answers(self) -> dict[str, dict[Argv, HostAnswer]]:
        """Start, wait, note, until nothing is open."""
        self._start()
        heard_s = self._executor.now()
        while self._open:
            happened = self._executor.wait(heard_s + SILENCE_S)
            if not happened and self._executor.now() >= heard_s + SILENCE_S:
                self._give_up()
                break
            for event in happened:
                heard_s = self._executor.now()
                if not isinstance(event, Ready):
                    self._note(event)
            self._start()
        return self._answers

    def _start(self) -> None:
        while self._turns and len(self._open) < self._in_flight:
            host = self._turns.popleft()
            if self._left[host]:
                command = self._left[host].popleft()
                self._open[self._executor.start(command)] = command

    def _note(self, event: Ended | Lost) -> None:
        command = self._open.pop(event.ticket, None)
        if command is None:
            return
        if isinstance(event, Ended):
            told = {field.name: getattr(event.result, field.name) for field in fields(event.result)}
            self._answers[command.host][command.argv] = HostAnswer(**told)
        else:
            self._lost(command, event)
        self._turns.append(command.host)

    def _lost(self, command: Command, event: Lost) -> None:
        host, timed_out = command.host, isinstance(event.error, CommandTimeout)
        why = f"no answer within {command.timeout_s:g} s" if timed_out else _without(str(event.error), host)
        self._unanswered(command, why)
        self._timeouts[host] += timed_out
        if not timed_out or self._timeouts[host] >= TIMEOUTS_MOST:
            self._drop(host, why)

    def _drop(self, host: str, why: str) -> None:
        while self._left[host]:
            self._unanswered(self._left[host].popleft(), why)

    def _give_up(self) -> None:
        for ticket, command in self._open.items():
            self._executor.cancel(ticket)
            why = "the executor never said what became of it"
            self._unanswered(command, why)
            self._drop(command.host, why)

    def _unanswered(self, command: Command, why: str) -> None:
        self._answers[command.host][command.argv] = HostAnswer(command, -1, "", "", 0.0, 0.0, lost=why)


def _without(text: str, host: str) -> str:
    """Errors begin with the host's name; findings are folded over hosts."""
    return text.removeprefix(f"{host}: ")
