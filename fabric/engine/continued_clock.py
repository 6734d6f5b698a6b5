"""Executors around executors; among them the clock of a run that goes on, whose executor counts from another moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.model.command import Command
from fabric.ports import Ended, Executor, Happening, Sampled, Source, Ticket


class Wrapped:
    """An Executor that does what another one does."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner

    def now(self) -> float:
        """As the executor's."""
        return self._inner.now()

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

    def close(self) -> None:
        """As the executor's."""
        self._inner.close()


class Shifted(Wrapped):
    """An Executor by whose clock everything happens *later_s* later (seconds; negative: earlier)."""

    def __init__(self, inner: Executor, later_s: float) -> None:
        super().__init__(inner)
        self._later_s = later_s

    def now(self) -> float:
        """The run's clock."""
        return self._inner.now() + self._later_s

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's."""
        return [self._moved(happening) for happening in self._inner.wait(until_s - self._later_s)]

    def _moved(self, happening: Happening) -> Happening:
        if not isinstance(happening, Ended):
            return replace(happening, at_s=happening.at_s + self._later_s)
        result = happening.result
        began_s, ended_s = result.started_s + self._later_s, result.ended_s + self._later_s
        return replace(happening, result=replace(result, started_s=began_s, ended_s=ended_s))

    def samples(self) -> Sequence[Sampled]:
        """As the executor's."""
        return [
            replace(sampled, at_s=tuple(at_s + self._later_s for at_s in sampled.at_s))
            for sampled in self._inner.samples()
        ]


def continued(executor: Executor, at_s: float) -> Executor:
    """The same executor, whose clock reads *at_s* now: the time between two sessions of a run does not count."""
    return Shifted(executor, at_s - executor.now())


def simulated_until(executor: Executor, at_s: float) -> Executor:
    """A simulated rack lives on to the moment at which its run was interrupted; it takes no time."""
    while executor.now() < at_s:
        executor.wait(at_s)
    return executor
