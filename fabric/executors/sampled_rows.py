"""Rows of samples, made whole again from the differences that an agent sends."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.executors.agent_messages import Names, Rows
from fabric.executors.agent_protocol import Garbled
from fabric.executors.host_clock import HostClock
from fabric.ports import Sampled, Ticket

Value = int | float | None
_MOST_NAMES = 100_000


class SampledRows:
    """All series of one sampling; raises Garbled for rows that make no sense."""

    def __init__(self, ticket: Ticket, clock: HostClock) -> None:
        self._ticket, self._clock = ticket, clock
        self._series: dict[int, tuple[tuple[str, ...], list[Value]]] = {}

    def take(self, message: Names | Rows) -> Sampled | None:
        """New names for a series, or rows of it."""
        if isinstance(message, Names):
            if len(message.names) > _MOST_NAMES or len(self._series) > _MOST_NAMES:
                raise Garbled(f"more than {_MOST_NAMES} names of samples")
            self._series[message.part] = message.names, [None] * len(message.names)
            return None
        if message.part not in self._series:
            raise Garbled("samples without names")
        names, values = self._series[message.part]
        rows: list[tuple[Value, ...]] = []
        for row in message.rows:
            values = _next(values, row)
            rows.append(tuple(values))
        self._series[message.part] = names, values
        at_s = tuple(self._clock.here(one) for one in message.at_s)
        return Sampled(self._ticket, names, at_s, tuple(rows), message.lost)


def _next(values: list[Value], row: object) -> list[Value]:
    if row == 0 and not isinstance(row, bool | list):
        return values
    if not isinstance(row, list) or len(row) != len(values):
        raise Garbled("a row of samples that does not fit its names")
    return [_value(before, entry) for before, entry in zip(values, row, strict=True)]


def _value(before: Value, entry: object) -> Value:
    if isinstance(entry, int) and not isinstance(entry, bool) and isinstance(before, int):
        return before + entry
    if isinstance(entry, list):
        return _whole(entry)
    raise Garbled("a sample that is no number")


def _whole(entry: Sequence[object]) -> Value:
    value = entry[0] if len(entry) == 1 else entry
    if value is None or type(value) in (int, float):
        return value  # type: ignore[return-value]
    raise Garbled("a sample that is no number")
