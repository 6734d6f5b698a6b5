"""Hosts that go out of a run for the same reason: the first at once, those that follow it in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fabric.model.names import fold
from fabric.model.own_name import without_own

HOLD_S = 2.0
"""So long are further hosts held back, to be told with others of the same reason (seconds; a choice)."""


@dataclass(slots=True)
class _Told:
    """A reason that was said of *first*; until *due_s* those that follow are held back in *others*."""

    first: str
    due_s: float
    others: list[str] = field(default_factory=list)


class FoldedOuts:
    """
    Says who is out of the run and why; reasons that differ only in the host's own name and address are the same.

    *addresses* are those of the hosts, by name; *clock* is monotonic (seconds).
    """

    def __init__(
        self,
        say: Callable[[str], None],
        addresses: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._addresses, self._clock = say, addresses, clock
        self._told: dict[str, _Told] = {}

    def take(self, component: str, reason: str) -> None:
        """A host or a part stopped answering."""
        self.pause()
        host = component.split("/")[0]
        kind = without_own(reason, host, self._addresses.get(host, ""))
        if kind in self._told:
            self._told[kind].others.append(component)
        else:
            self._told[kind] = _Told(component, self._clock() + HOLD_S)
            self._say(f"{component} is out of the run: {reason.removeprefix(f'{host}: ')}")

    def pause(self) -> None:
        """Something else may be said now: those that were held back for long enough are said first."""
        now_s = self._clock()
        for kind in [kind for kind, told in self._told.items() if told.due_s <= now_s]:
            self._end(self._told.pop(kind))

    def flush(self) -> None:
        """Say all that was held back."""
        for told in self._told.values():
            self._end(told)
        self._told.clear()

    def _end(self, told: _Told) -> None:
        many = len(told.others)
        if many:
            names = f"{fold(told.others)} ({many:,}) are" if many > 1 else f"{told.others[0]} is"
            self._say(f"{names} out of the run for the same reason as {told.first}")
