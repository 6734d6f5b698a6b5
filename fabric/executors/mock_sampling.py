"""Sampling on simulated hosts: the simulated ``cat`` of each file, and the tools themselves, once a period."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fabric.agent.sampling import number_of, pairs_of, tool_row
from fabric.ports import Sampled, Source, Ticket
from fabric.sim.happenings import Exited

Value = int | float | None
Start = Callable[[str, tuple[str, ...]], int]


def problem_of(sources: Sequence[Source]) -> str | None:
    """Why these sources cannot be sampled here, None when they can."""
    patterns = [source.path for source in sources if "*" in source.path]
    return f"simulated hosts expand no patterns, name each file: {patterns[0]}" if patterns else None


@dataclass(slots=True)
class _Row:
    """One instant: what each source of a series has said so far."""

    at_s: float
    asked: dict[int, Source]  # by process
    said: dict[Source, Exited] = field(default_factory=dict)


class MockSampling:
    """One sampling of one host. A series waits for its row before the next one begins."""

    def __init__(self, ticket: Ticket, host: str, sources: Sequence[Source], period_s: float, begin_s: float) -> None:
        self.ticket, self.host, self.next_s = ticket, host, begin_s
        self._period_s = max(0.01, period_s)
        files = [source for source in sources if source.path]
        self._series = ([files] if files else []) + [[source] for source in sources if source.argv]
        self._rows: dict[int, _Row] = {}  # by number of the series

    def begin(self, now_s: float, start: Start) -> list[int]:
        """Start a row of every series that has none under way; returns the processes."""
        self.next_s = now_s + self._period_s
        pids: list[int] = []
        for number, sources in enumerate(self._series):
            if number in self._rows:
                continue
            asked = {start(self.host, source.argv or ("cat", source.path)): source for source in sources}
            self._rows[number] = _Row(now_s, asked)
            pids += asked
        return pids

    def exited(self, event: Exited) -> Sampled | None:
        """A process of ours has ended; the row that this makes complete."""
        for number, row in list(self._rows.items()):
            if event.pid in row.asked:
                row.said[row.asked[event.pid]] = event
                if len(row.said) == len(row.asked):
                    del self._rows[number]
                    return self._sampled(row)
        return None

    def pids(self) -> list[int]:
        """Processes under way."""
        return [pid for row in self._rows.values() for pid, source in row.asked.items() if source not in row.said]

    def _sampled(self, row: _Row) -> Sampled | None:
        names: list[str] = []
        values: list[Value] = []
        for source in row.asked.values():
            end = row.said[source]
            found = _read(source, end.stdout if end.exit_status == 0 else "")
            names += found[0]
            values += found[1]
        return Sampled(self.ticket, tuple(names), (row.at_s,), (tuple(values),)) if names else None


def _read(source: Source, text: str) -> tuple[list[str], list[Value]]:
    """Names and values as an agent would tell them."""
    if source.argv:
        return tool_row(text, source.form)
    number = number_of(text.strip())
    pairs = [] if number is not None else pairs_of(text, " ")
    if pairs:
        return [f"{source.path}:{name}" for name, _ in pairs], [value for _, value in pairs]
    return [source.path], [number]
