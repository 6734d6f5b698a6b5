"""Waiting for a link that was altered to carry traffic again."""

from __future__ import annotations

from fabric.changes.closing import Seen, active
from fabric.changes.kind import Context
from fabric.changes.ports import End
from fabric.changes.procedure import Procedure, pause
from fabric.errors import ExecutorError, MayBeLive, ToolError

POLL_S = 0.5
"""How often an end is asked while it changes (seconds; choice)."""


def until_active(end: End, context: Context, until_s: float) -> Procedure[float]:
    """
    Ask an end until it is Active; returns the time (executor's seconds).

    While routes change a question may well be lost, so an error is an answer like "not yet". Raises MayBeLive with what
    was seen last when it is *until_s*.
    """
    seen = Seen("not seen", up=False, closed=False)
    now_s = yield from pause(0.0)
    while True:
        try:
            seen = yield from active(end, context)
        except (ToolError, ExecutorError) as exc:
            seen = Seen(str(exc).partition("\n")[0], up=False, closed=False)
        if seen.up:
            return (yield from pause(0.0))
        if now_s >= until_s:
            raise MayBeLive(f"{end} was put back and does not come up: {seen}")
        now_s = yield from pause(min(now_s + POLL_S, until_s))
