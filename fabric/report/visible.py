"""Text from hosts and files made safe to look at: it cannot move a cursor, change colours or reverse letters."""

from __future__ import annotations

import re

_MOST = 600
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """The text on one line, control and direction characters written as escapes, cut at 600 characters."""
    shown = _HARMFUL.sub(lambda found: repr(found[0])[1:-1], text)
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}... ({len(shown) - _MOST} more characters)"
