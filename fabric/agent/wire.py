"""
JSON both ways, by the C functions under the json module: to import json itself costs a fifth of the agent's start.

Sent to hosts: standard library only, and nothing newer than Python 3.6.
"""

import _json

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
