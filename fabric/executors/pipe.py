"""The way to one running command, whatever carries it: both output streams, and stdin, which says "end" by closing."""

from __future__ import annotations

from typing import Protocol


class Pipe(Protocol):
    """Carries one command. One thread begins, reads and closes it; others may ``end`` and ``abort`` it."""

    def begin(self, argv: tuple[str, ...]) -> None:
        """Start *argv* over there; raises HostUnreachable."""
        ...

    def read(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """What has arrived on stdout and stderr by then, empty when nothing has; None when nothing will ever come."""
        ...

    def end(self) -> None:
        """Close stdin: the wrapper over there ends the command and says so."""
        ...

    def abort(self, why: str) -> None:
        """Give up on what carries the command; ``read`` answers None soon after."""
        ...

    def epitaph(self) -> str:
        """Why the pipe ended before the wrapper's last word, for people."""
        ...

    def close(self) -> None:
        """Let go; safe to call twice and in any state."""
        ...
