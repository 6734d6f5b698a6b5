"""Command lines taken apart the way getopt_long does it: clusters, ``=``, unique abbreviations."""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence


class BadOption(Exception):
    """The tool would refuse this command line; the message is what glibc's getopt prints after the program's name."""


Table = Mapping[str, str]
"""``--name`` and ``-n`` to the field that it sets, with "=" behind it where the option takes a value."""


def options(text: str) -> Table:
    """A tool's options, one field a line: its name (``device=`` takes a value, ``json`` none), then the option's."""
    lines = (line.split() for line in text.strip().splitlines())
    return {name: field for field, *names in lines for name in names}


def number(text: str, *, least: int = 0, most: int = 1 << 63) -> int:
    """A whole number within bounds; raises BadOption in words of our own."""
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadOption(f"invalid value '{text}'")
    return int(text)


def taken_apart(words: Sequence[str], table: Table, *, stop_early: bool = False) -> tuple[dict[str, str], list[str]]:
    """
    Fields and positional words; a field without a value holds "".

    With *stop_early* the first positional word ends the options (as launchers do). Raises BadOption.
    """
    short = "".join(name[1] + ":" * field.endswith("=") for name, field in table.items() if len(name) == 2)
    long = [name[2:] + "=" * field.endswith("=") for name, field in table.items() if len(name) > 2]
    fields: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:  # gnu_getopt would look at the environment
        try:
            found, left = getopt.getopt(left, short, long)
        except getopt.GetoptError as bad:
            raise BadOption(_as_glibc(bad.opt, bad.msg)) from None
        fields |= {table[name].rstrip("="): value for name, value in found}
        upto = len(left) if stop_early else 1
        rest, left = rest + left[:upto], left[upto:]
    return fields, rest


def _as_glibc(option: str, message: str) -> str:
    is_long = len(option) > 1
    if "requires argument" in message:
        return f"option '--{option}' requires an argument" if is_long else f"option requires an argument -- '{option}'"
    if "must not have" in message:
        return f"option '--{option}' doesn't allow an argument"
    return f"unrecognized option '--{option}'" if is_long else f"invalid option -- '{option}'"
