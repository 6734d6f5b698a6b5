"""Collects everything that is wrong with one file, each with its line."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.errors import ConfigError, Problem

KeyPath = tuple[str | int, ...]
"""The way to a value in a file: ``("hosts", 0, "platform")``."""

PROBLEMS_MOST = 500  # a file of 1 MiB can hold a hundred thousand; nobody reads those, and looking on takes minutes


class Problems:
    """
    What was found so far with one file.

    *lines* is filled while the file is read. A path that is ``spoil``-ed gets no second problem.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self._found: dict[Problem, None] = {}  # in order, each once
        self._spoiled: set[KeyPath] = set()
        self._stands_for: dict[KeyPath, str] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: KeyPath, text: str) -> None:
        """Something is wrong at *path*, or at the nearest thing around it that has a line."""
        where = self._known(path)
        if where in self._spoiled:
            return
        said = f"{text} (that is {self._stands_for[where]})" if where in self._stands_for else text
        self.at_line(self.lines.get(where, 0), said)

    def stands_for(self, path: KeyPath, written: str) -> None:
        """What is read at *path* is not what stands there: problems quote the latter too."""
        self._stands_for[path] = written

    def spoil(self, path: KeyPath, text: str) -> None:
        """Something is so wrong at *path* that whatever else is said about it would mislead."""
        self.add(path, text)
        self._spoiled.add(path)

    def silence(self, path: KeyPath) -> None:
        """What is at *path* follows from something that is wrong elsewhere: nothing is said about it."""
        self._spoiled.add(path)

    def at_line(self, line: int, text: str) -> None:
        """Something is wrong on a line; 0 is the whole file. ConfigError when it is one too many."""
        self._found[Problem(self.file, line, text)] = None
        if len(self._found) >= PROBLEMS_MOST:
            raise ConfigError((*self._found, Problem(self.file, 0, f"not read on after {PROBLEMS_MOST} problems")))

    def all(self) -> tuple[Problem, ...]:
        """What was found."""
        return tuple(self._found)

    def raise_if_any(self, others: Iterable[Problem] = ()) -> None:
        """End here, with everything, when anything is wrong."""
        everything = (*self.all(), *others)
        if everything:
            raise ConfigError(everything)

    def _known(self, path: KeyPath) -> KeyPath:
        """
        The part of *path* that is in the file.

        A step that is not there (a missing key, the tag of a union in pydantic's location) is left out.
        """
        known: KeyPath = ()
        for step in path:
            if (*known, step) in self.lines:
                known = (*known, step)
        return known
