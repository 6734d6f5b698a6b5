"""A byte stream to and from the agent of one host, whatever carries it."""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """Never blocks. One thread uses it, but ``close`` and ``epitaph`` may come from others."""

    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when ``read`` has something; none if it announces that in another way."""
        ...

    def write(self, data: bytes) -> int:
        """Send what can be sent at once; returns how many bytes. Raises OSError when the stream has ended."""
        ...

    def read(self) -> bytes | None:
        """What has arrived, empty when nothing has; None when nothing will ever come."""
        ...

    def alive(self) -> bool:
        """False when the other side is known to be gone, even if nobody has read so far."""
        ...

    def epitaph(self) -> str:
        """Why the stream ended, and what the other side last complained about, for people; may wait for a moment."""
        ...

    def abandon(self, why: str) -> None:
        """Cut the way to the host, because it does not answer any more."""
        ...

    def close(self) -> None:
        """Let go; the agent ends what it runs. May block for some seconds; safe to call twice."""
        ...
