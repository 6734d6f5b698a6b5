"""OpenSM's configuration file: one ``key value`` a line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LITERAL = {char: f"[{char}]" for char in ".*+?$|(){"} | {"^": r"\^", "[": r"\[", "\\": r"[\\]"}
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def parse(text: str) -> dict[str, str]:
    """
    Every key and its value; of a key that is there twice the last, as OpenSM reads it.

    Comments (``#`` first) and empty lines are passed over, and lines that are no key with a value.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and _KEY.fullmatch(words[0]):
            found[words[0]] = words[1].rstrip()
    return found


def settings(values: Mapping[str, str]) -> tuple[str, ...]:
    """``key=value`` words for whoever edits the file; ValueError when one would not stay on its line."""
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a subnet manager's file")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"{key}: {value!r} is not one line of printable text")
    return tuple(f"{key}={value}" for key, value in values.items())


def equals(key: str, value: str) -> str:
    """A pattern (grep -E, and Python's) for the line in which a key has a value."""
    literal = "".join(_LITERAL.get(char, char) for char in value)
    return f"^[ \t]*{key}[ \t]+{literal}[ \t]*$"
