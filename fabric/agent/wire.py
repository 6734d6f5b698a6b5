"""
JSON both ways, and what waits to be written to the orchestrator, which may read slowly or not at all.

By the C functions under the json module: to import json itself costs a fifth of the agent's start.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import _json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Plain:
    """What json.JSONDecoder() would say to the scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int
    memo = None


def _refused(value: "Any") -> "Any":
    raise TypeError(f"not JSON: {value!r}")


_scan = _json.make_scanner(_Plain)  # type: ignore[arg-type]
_encode = _json.make_encoder(None, _refused, _json.encode_basestring_ascii, None, ":", ",", False, False, True)


def parsed(line: bytes) -> "Any":
    """The value that a line of JSON holds; raises ValueError for one that is not JSON."""
    text = line.decode("ascii").strip()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError(f"not JSON: {text[:80]}") from None
    if end != len(text):
        raise ValueError(f"more than one value: {text[:80]}")
    return value


def written(value: "Any") -> bytes:
    """A value as JSON in ASCII, as short as it gets."""
    return "".join(_encode(value, 0)).encode("ascii")


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
        data = lead.encode("ascii") + written(message) + b"\n"
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
