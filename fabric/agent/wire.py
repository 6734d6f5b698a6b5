"""
JSON both ways, and what waits to be written to the orchestrator, which may read slowly or not at all.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parsed(line: bytes) -> "Any":
    """The value that a line of JSON holds; raises ValueError for one that is not JSON."""
    return json.loads(line.decode("ascii"))


class Told:
    """
    Messages to a file descriptor, written together and without waiting.

    *got* is how many bytes have been read of what the other side wrote, *acknowledged* how many of them it knows of.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.waiting_bytes = 0
        self.got = 0
        self.acknowledged = 0
        self._pieces = []  # type: list[bytes]

    def add(self, message: "dict[str, Any]", lead: str = "") -> None:
        """One more message, a line; *lead* stands before it."""
        data = (lead + json.dumps(message, separators=(",", ":")) + "\n").encode("ascii")
        self._pieces.append(data)
        self.waiting_bytes += len(data)

    def acknowledge(self, message: "dict[str, Any]") -> None:
        """One more message, which says how much we have read."""
        self.acknowledged = self.got
        self.add(message)

    def flush(self) -> None:
        """Write what can be written; raises OSError when nobody reads any more."""
        if not self.waiting_bytes:
            return
        data = b"".join(self._pieces)
        try:
            count = os.write(self.fd, data)
        except BlockingIOError:
            count = 0
        self._pieces, self.waiting_bytes = [data[count:]], len(data) - count
