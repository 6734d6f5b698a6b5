"""What tests of executors look at: what happened to commands, and which processes are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fabric.ports import Ended, Executor, Happening, Lost, Ticket

TOKEN_NAME = "FABRIC_CONTRACT_TOKEN"
"""The environment variable by which descendants of a command are found again."""


def collected(executor: Executor, tickets: Iterable[Ticket], *, timeout_s: float = 60) -> dict[Ticket, list[Happening]]:
    """Everything that happened to *tickets* until each has ended, and a moment longer to catch a second end."""
    happened: dict[Ticket, list[Happening]] = {ticket: [] for ticket in tickets}
    until_s = executor.now() + timeout_s
    while not all(any(isinstance(one, Ended | Lost) for one in ones) for ones in happened.values()):
        assert executor.now() < until_s, happened
        for one in executor.wait(until_s):
            happened[one.ticket].append(one)
    for one in executor.wait(executor.now() + 0.05):
        happened[one.ticket].append(one)
    return happened


def until(condition: Callable[[], bool], *, timeout_s: float = 15) -> bool:
    """Whether *condition* comes true in time."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True


def processes_with(token: str) -> list[str]:
    """Command lines of this machine's processes that hold *token* in their arguments or environment."""
    return [line for pid in _pids() if token in (line := _text(pid / "cmdline")) or token in _text(pid / "environ")]


def running_with(token: str) -> list[str]:
    """Command lines of those that have it in their environment: the program itself, not what carries it."""
    return [_text(pid / "cmdline") for pid in _pids() if token in _text(pid / "environ")]


def _pids() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
