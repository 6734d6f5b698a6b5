"""An Executor that does something beside what it is told by the engine."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.model.command import Command
from fabric.ports import Executor, Happening, Sampled, Source, Ticket


class Beside:
    """Hands everything on to another executor; what looks on while probes run is made of it."""

    def __init__(self, executor: Executor) -> None:
        self._inner = executor

    def now(self) -> float:
        """As the executor's."""
        return self._inner.now()

    def go_on(self, at_s: float) -> None:
        """As the executor's."""
        self._inner.go_on(at_s)

    def start(self, command: Command) -> Ticket:
        """As the executor's."""
        return self._inner.start(command)

    def cancel(self, ticket: Ticket) -> None:
        """As the executor's."""
        self._inner.cancel(ticket)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's."""
        return self._inner.wait(until_s)

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float) -> Ticket:
        """As the executor's."""
        return self._inner.start_sampling(host, sources, period_s)

    def samples(self) -> Sequence[Sampled]:
        """As the executor's."""
        return self._inner.samples()

    def stop_sampling(self, ticket: Ticket) -> None:
        """As the executor's."""
        self._inner.stop_sampling(ticket)

    def wake(self) -> None:
        """As the executor's."""
        self._inner.wake()

    def end(self) -> None:
        """Stop looking and make what was seen durable; safe to call twice. Raises StoreError when the disk says no."""
        if isinstance(self._inner, Beside):
            self._inner.end()

    def close(self) -> None:
        """End what is done beside, and close the executor."""
        try:
            self.end()
        finally:
            self._inner.close()
