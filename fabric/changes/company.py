"""
What the changes of one phase do together: each is looked at on its own, and alone each may be fine.

Looks run side by side, and things take longer than planned. So a change is held against the others twice: when it is
looked at, against what is planned for the same time, and when it is about to be made, against what is live then.
"""

from __future__ import annotations

from collections.abc import Collection

from fabric.changes.blast_radius import at_once, together_problems
from fabric.changes.kind import Context
from fabric.changes.rails import ISOLATE
from fabric.errors import Refused
from fabric.model.change import Change

HANDOVER_S = 90.0
"""
A change waits so long for one that should be over and is not taken back yet (seconds; choice).

An undo and the training of a link take some seconds, a subnet manager's new routes up to 80.
"""


class Company:
    """The changes of one phase that were not refused and have not ended."""

    def __init__(self, context: Context, allow: Collection[str]) -> None:
        self._context, self._allow = context, allow
        self._planned: dict[str, Change] = {}
        self._live: dict[str, Change] = {}

    def join(self, change: Change, other_paths: frozenset[str] | None) -> None:
        """
        A look has found nothing against it. *other_paths*: RNICs of its host seen active; None: it needs none.

        Raises Refused for what is too much together with those that joined before.
        """
        planned = (*self._planned.values(), change)
        for together in at_once(planned):
            if change in together:
                wrong = self._wrong(together, change, other_paths)
                if wrong:
                    raise Refused(f"together with {_others(together, change)}: {wrong}")
        self._planned[change.change_id] = change

    def begin(self, change: Change, other_paths: frozenset[str] | None) -> str:
        """It is about to be made; returns what is wrong with that now, empty when it counts as live from here on."""
        live = tuple(one for one in self._live.values() if one is not change)
        wrong = self._wrong((*live, change), change, other_paths) if live else ""
        if wrong:
            return f"{_others((*live, change), change)} not taken back yet: {wrong}"
        self._live[change.change_id] = change
        return ""

    def leave(self, change: Change) -> None:
        """It was refused, or nothing of it is left."""
        self._planned.pop(change.change_id, None)
        self._live.pop(change.change_id, None)

    def _wrong(self, together: tuple[Change, ...], change: Change, other_paths: frozenset[str] | None) -> str:
        if len(together) < 2:
            return ""
        context = self._context
        found = together_problems(together, context.topology, context.settings, self._allow)
        if found:
            return found[0]
        host = change.component.partition("/")[0]
        altered = {
            device
            for name, slash, device in (one.component.partition("/") for one in together if one.is_fault)
            if slash and name == host
        }
        if other_paths is not None and not other_paths - altered:
            return f"{host} would lose its last active path (to do it all the same: allow: [{ISOLATE}])"
        return ""


def _others(together: tuple[Change, ...], change: Change) -> str:
    return ", ".join(one.change_id for one in together if one is not change)
