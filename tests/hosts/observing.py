"""What tests of executors look at: what happened to commands."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.ports import Ended, Executor, Happening, Lost, Ticket


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
