"""The ``change`` events of a run's history, brought to one result for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from fabric.errors import StoreError
from fabric.model.change import Change, ChangeResult, Window
from fabric.runs.events import Event

FINAL = frozenset({"reverted", "refused", "failed", "lost", "open"})
"""States that end a change; ``open`` means that nobody knows."""

_BEGUN = frozenset({"intent", "armed", "in_force", "lifted"})


def change_results(events: Iterable[Event], planned: Sequence[Change]) -> tuple[ChangeResult, ...]:
    """
    How each planned change ended, in planned order; those of which nothing was begun are left out.

    One whose last event is not a final state is ``open``: the run ended, and nobody saw it taken back. A change that
    was begun anew (a run that went on) counts from its last beginning; only the windows of one that is in force for all
    of its phase add up. Raises StoreError for a state that there is not,
    and for a change that is not planned: a plan that differs from what was run must not hide one that may be live.
    """
    lives = {change.change_id: _Life(change) for change in planned}
    for event in events:
        if event["event"] != "change":
            continue
        life = lives.get(event["change"])
        if life is None:
            raise StoreError(f"event {event['seq']}: the plan has no change {event['change']!r}")
        life.take(event)
    return tuple(life.result() for life in lives.values() if life.state)


class _Life:
    """What is known of one change so far."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self.state = ""
        self._reason = ""
        self._windows: list[Window] = []
        self._before: Mapping[str, Any] | None = None
        self._after: Mapping[str, Any] | None = None

    def take(self, event: Event) -> None:
        state = event["state"]
        if state not in FINAL | _BEGUN:
            raise StoreError(f"event {event['seq']}: a change is never {state!r}")
        if state == "intent" or (self.state in FINAL and state in _BEGUN):
            self._windows = [one for one in self._windows if self._is_for_all_of_its_phase and one.ended_s is not None]
            self._before = self._after = None
        self.state, self._reason = state, event.get("reason", "")
        if state == "in_force":
            if self._before is None:
                self._before = event.get("counters", {})
            if not self._is_on:
                self._windows.append(Window(event["at_s"], None))
        elif self._is_on and state not in ("open", "intent", "armed"):
            self._windows[-1] = Window(self._windows[-1].began_s, event["at_s"])
        if state in FINAL:
            self._after = event.get("counters", {})

    @property
    def _is_for_all_of_its_phase(self) -> bool:
        """What was measured before a run was interrupted stands, and was measured while the change was in force."""
        return self._change.when.at_s is None and self._change.when.for_s is None

    @property
    def _is_on(self) -> bool:
        return bool(self._windows) and self._windows[-1].ended_s is None

    def result(self) -> ChangeResult:
        state, reasons = self.state, [self._reason]
        if state not in FINAL:
            state = "open"
            reasons.append("the run ended before it was seen taken back")
        growth, left_out = _growth(self._before or {}, self._after or {})
        if left_out:
            reasons.append(f"counters left out, they went down or vanished: {', '.join(left_out)}")
        reason = "; ".join(filter(None, reasons))
        return ChangeResult(self._change, state, reason, tuple(self._windows), growth)


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """
    By how much each counter grew, and the names of those that cannot be compared.

    A counter that was not there before is no growth that we know of; when nothing at all was read afterwards, nothing
    vanished.
    """
    growth: dict[str, float] = {}
    left_out: list[str] = []
    for name, value in before.items():
        grew = _number(after.get(name)) - _number(value)
        if grew >= 0.0:
            growth[name] = grew
        elif after:
            left_out.append(name)
    return growth, left_out


def _number(value: object) -> float:
    """NaN, which compares with nothing, for what is no finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    return float("nan")
