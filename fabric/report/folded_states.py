"""Changes that come to the same state one after the other, as one line: ``4 links: ber raw 1e-5 is in force``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fabric.model.change import Change

_THINGS = {"port": "links", "host": "hosts"}
_NAMED = 2


@dataclass(frozen=True, slots=True)
class _Sort:
    """What changes must share to be told in one line."""

    phase: str
    scope: str
    text: str


class FoldedStates:
    """
    Holds back changes of one sort that reach one state, until all of that sort in the phase have, or something else
    is to be said first: then ``flush`` says those that have.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._planned: Counter[_Sort] = Counter()
        self._sort: _Sort | None = None
        self._ending = ""
        self._names: list[str] = []

    def planned(self, changes: Iterable[Change]) -> None:
        """The changes of the phase that begins."""
        self.flush()
        self._planned = Counter(_sort(change) for change in changes)

    def take(self, change: Change, ending: str) -> None:
        """One change has come to a state; *ending* says to which, in words."""
        sort = _sort(change)
        if (sort, ending) != (self._sort, self._ending):
            self.flush()
        self._sort, self._ending = sort, ending
        self._names.append(change.component)
        if len(self._names) >= self._planned[sort]:
            self.flush()

    def flush(self) -> None:
        """Say what was held back."""
        sort, names = self._sort, self._names
        self._sort, self._names = None, []
        if sort is not None and names:
            self._say(f"{sort.phase}: {_where(sort, names)}: {sort.text} {self._ending}")


def _sort(change: Change) -> _Sort:
    return _Sort(change.phase, change.scope, str(change.spec))


def _where(sort: _Sort, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{len(names)} {_THINGS.get(sort.scope, 'changes')} ({shown})"
