"""Which processes of this machine belong to a command, told by a word in its environment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

TOKEN_NAME = "FABRIC_CONTRACT_TOKEN"
"""The environment variable by which descendants of a command are found again."""


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
