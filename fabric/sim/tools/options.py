"""Command lines taken apart the way getopt_long does it: clusters, ``=``, unique abbreviations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


class BadOption(Exception):
    """The tool would refuse this command line; the message is what getopt prints after the program's name."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the field it sets, and whether it takes a value: ``yes``, ``no``, or ``joined`` (only after "=")."""

    field: str
    value: str = "yes"


Table = Mapping[str, Option]
"""``--name`` and ``-n`` to the option."""


def options(text: str) -> Table:
    """
    A tool's options, one field a line: its name, then the option's names.

    ``device=`` takes a value, ``cuda?`` one that is joined by "=", ``json`` none.
    """
    found: dict[str, Option] = {}
    for line in text.strip().splitlines():
        field, *names = line.split()
        value = {"=": "yes", "?": "joined"}.get(field[-1], "no")
        found |= dict.fromkeys(names, Option(field.rstrip("=?"), value))
    return found


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
    fields: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for text in left:
        if text == "--":
            rest.extend(left)
        elif text.startswith("--"):
            _long(text, left, table, fields)
        elif text.startswith("-") and len(text) > 1:
            _short(text, left, table, fields)
        else:
            rest.append(text)
            if stop_early:
                rest.extend(left)
    return fields, rest


def _long(text: str, left: Iterator[str], table: Table, fields: dict[str, str]) -> None:
    name, equals, value = text.partition("=")
    option = table.get(name)
    if option is None:
        option = _abbreviated(name, table, text)
    if option.value == "no":
        if equals:
            raise BadOption(f"option '{name}' doesn't allow an argument")
    elif not equals:
        value = _next(left, option, f"option '{name}' requires an argument")
    fields[option.field] = value


def _abbreviated(name: str, table: Table, text: str) -> Option:
    meant = {table[known] for known in table if known.startswith(name)}
    if len(meant) != 1:
        raise BadOption(f"option '{name}' is ambiguous" if meant else f"unrecognized option '{text}'")
    return meant.pop()


def _short(text: str, left: Iterator[str], table: Table, fields: dict[str, str]) -> None:
    for position in range(1, len(text)):
        letter = text[position]
        option = table.get(f"-{letter}")
        if option is None:
            raise BadOption(f"invalid option -- '{letter}'")
        if option.value == "no":
            fields[option.field] = ""
            continue
        value = text[position + 1 :] or _next(left, option, f"option requires an argument -- '{letter}'")
        fields[option.field] = value
        return


def _next(left: Iterator[str], option: Option, complaint: str) -> str:
    if option.value == "joined":  # getopt's optional argument must be joined by "="
        return ""
    value = next(left, None)
    if value is None:
        raise BadOption(complaint)
    return value
