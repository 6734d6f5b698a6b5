"""Looking at the fabric on the way to a change: with root's rights where the inventory says so, never altering."""

from __future__ import annotations

from fabric.changes.kind import Context
from fabric.changes.procedure import ASK_S, Procedure, ask
from fabric.errors import ToolError
from fabric.model.change import Argv

Text = tuple[str, str, int]
"""What a tool's reader takes: stdout, stderr, exit status."""

FABRIC_S = 60.0
"""Deadline of a walk over the whole fabric (seconds; choice: thousands of ports take some ten)."""


def look(context: Context, host: str, argv: Argv, *, timeout_s: float = ASK_S) -> Procedure[Text]:
    """
    Run a command that only reads, as root.

    Raises ToolError when its output was cut, ExecutorError when there is none.
    """
    prefix = ("sudo", "-n") if context.settings.sudo else ()
    return (yield from plainly(host, (*prefix, *argv), timeout_s=timeout_s))


def plainly(host: str, argv: Argv, *, timeout_s: float = ASK_S) -> Procedure[Text]:
    """The same as whoever we are."""
    result = yield from ask(host, argv, timeout_s=timeout_s)
    if result.truncated:
        raise ToolError(f"{host}: {argv[0]} printed more than can be kept")
    return result.stdout, result.stderr, result.exit_status


def program(context: Context, host: str, name: str) -> str:
    """What a program is called on a host."""
    found = context.topology.hosts.get(host)
    return name if found is None else found.platform.program(name)
