"""The file ``STOP`` in a run's directory: whoever makes it asks the run to stop, as a first Ctrl-C does."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from fabric.store.run_directory import RunDirectory

NAME = "STOP"
"""What the file is called; what is in it does not matter."""

LOOK_S = 1.0
"""How often it is looked for (seconds of the executor's clock; choice: one ``stat`` costs nothing)."""


class StopFile:
    """
    Looked for at most once in LOOK_S, until it is there; once seen it stays seen, though somebody removes it.

    That it was seen is noted in the run's history.
    """

    def __init__(self, directory: RunDirectory, clock: Callable[[], float]) -> None:
        self._directory, self._clock = directory, clock
        self._path = directory.path / NAME
        self.seen = False
        self.next_s = clock()

    def look(self) -> bool:
        """Whether it is there, or was."""
        now_s = self._clock()
        if not self.seen and now_s >= self.next_s:
            self.next_s = now_s + LOOK_S
            if self._path.exists():
                self.seen, self.next_s = True, inf
                self._directory.events.append("stop", now_s, {"reason": f"the file {self._path} is there"})
        return self.seen
