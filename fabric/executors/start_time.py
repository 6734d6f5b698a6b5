"""When a command is to begin that shall begin at a time: checked, and as seconds to wait."""

from __future__ import annotations

from fabric.model.command import Command

MOST_AHEAD_S = 3600.0
"""No start lies further ahead; choice: tests begin together within seconds, so more is a mistake of units."""


def begins_s(command: Command, now_s: float) -> float:
    """The time at which a command that is sent at *now_s* begins, by the executor's clock."""
    return now_s if command.start_at_s is None else max(now_s, command.start_at_s)


def check_start(command: Command, now_s: float) -> None:
    """Raise ValueError for a start too far ahead."""
    if command.start_at_s is not None and not command.start_at_s - now_s <= MOST_AHEAD_S:
        ahead_s = command.start_at_s - now_s
        raise ValueError(f"{command.argv[0]!r} is to start in {ahead_s:g} s, more than {MOST_AHEAD_S:g} s ahead")
