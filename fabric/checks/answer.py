"""What a host answered to one command of a check, or why it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.tools.driver import complaint, plain

Argv = tuple[str, ...]

_MOST = 160  # characters of a quoted line


@dataclass(frozen=True, slots=True)
class Answer:
    """
    How one command ended; *lost* says why there is no answer, and is empty when there is one.

    Times are seconds of the executor's clock.
    """

    argv: Argv
    status: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float
    lost: str = ""

    @property
    def text(self) -> str:
        """Both streams without colours, for tools that do not care which one they use."""
        return plain(f"{self.stdout}\n{self.stderr}")

    @property
    def absent(self) -> bool:
        """The program is not there, or not the libraries it needs."""
        return not self.lost and self.status == 127


Answers = Mapping[Argv, Answer]
"""All that one host answered, by the command."""


def quoted(text: str) -> str:
    """Text of a host as a finding may quote it: one line, cut at 160 characters, and always encodable."""
    line = " ".join(plain(text).split())
    shown = line.encode("utf-8", "replace").decode("utf-8")
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}..."


def excuse(answer: Answer) -> str:
    """Why an answer cannot be used: it was lost, or the line in which the tool complains."""
    if answer.lost:
        return quoted(answer.lost)
    return f"exit {answer.status}: {quoted(complaint(answer.stdout, answer.stderr))}"
