"""Helpers for every tool driver: safe values in a command line, and reading and quoting what a tool printed."""

import json
import re
import signal
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fabric.errors import ToolError, UnreadableOutput

_Found = TypeVar("_Found")

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A peer may also be an IPv6 address with a zone: fe80::1%eth0, ::1.
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]*")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*|(?:/[A-Za-z0-9._+@-]+)+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""An escape sequence that a terminal takes for a colour or a movement."""

_MOST = 200  # characters of a quoted line


def word(value: str, what: str) -> str:
    """Return a host or device name: letters, digits, dot, dash, underscore, no dash first; else raise ValueError."""
    return matching(_WORD, value, what)


def address(value: str, what: str) -> str:
    """Return a host name or an IPv4 or IPv6 address; else raise ValueError."""
    return matching(_ADDRESS, value, what)


def program(value: str) -> str:
    """Return the name of a program or its absolute path; else raise ValueError."""
    return matching(_PROGRAM, value, "program")


def as_root(argv: tuple[str, ...], *, sudo: bool) -> tuple[str, ...]:
    """Return a command that needs root, through sudo where the account is not root."""
    return ("sudo", "-n", *argv) if sudo else argv


def option_word(value: str) -> str:
    """Return one word to hand on to a launcher: printable ASCII without blanks; else raise ValueError."""
    if not re.fullmatch(r"[!-~]+", value):
        raise ValueError(f"launcher option is {value!r}, not one printable word")
    return value


def whole(value: int, what: str, *, at_least: int, at_most: int = 1 << 62) -> int:
    """Return a whole number in range; else raise ValueError."""
    if not at_least <= value <= at_most:
        raise ValueError(f"{what} is {value}, not in {at_least}..{at_most}")
    return value


def setting(name: str, value: str) -> str:
    """Return ``NAME=VALUE`` for the environment of a program; else raise ValueError."""
    if "\0" in value or "\n" in value:
        raise ValueError(f"{name} holds a NUL or a line break")
    return f"{matching(_VARIABLE, name, 'environment variable')}={value}"


def matching(pattern: re.Pattern[str], value: str, what: str) -> str:
    """Return a value that matches a pattern as a whole; else raise ValueError."""
    if not pattern.fullmatch(value):
        raise ValueError(f"{what} is {value!r}, which a command line could misread")
    return value


def plain(text: str) -> str:
    """Return text without colours and carriage returns."""
    return COLOUR.sub("", text).replace("\r", "")


def whole_lines(text: str) -> list[str]:
    """
    Return the lines that were printed to their end.

    A last line without a line break is left out, because it may be cut in the middle of a number.
    """
    lines = plain(text).split("\n")
    return lines[:-1]


def complaint(stdout: str, stderr: str) -> str:
    """Return the line that says what is wrong: the first with ``-E-`` or ``error``, else the last one of all."""
    lines = [line.strip() for text in (stderr, stdout) for line in plain(text).splitlines() if line.strip()]
    marked = [line for line in lines if "-E-" in line or "error" in line.lower()]
    return next(iter(marked or lines[-1:]), "no output")[:_MOST]


def _ended(exit_status: int) -> str:
    """Return an exit status in words: a process reports -N, a shell 128 + N where signal N ended the tool."""
    number = -exit_status if exit_status < 0 else exit_status - 128
    named = {one.value: one.name for one in signal.Signals}
    return f"ended by {named[number]}" if number in named else f"exit {exit_status}"


def need_success(tool: str, stdout: str, stderr: str, exit_status: int) -> None:
    """Raise ToolError with the tool's own words when it did not end well."""
    if exit_status == 127:
        raise ToolError(f"{tool} is not there (exit 127: {complaint(stdout, stderr)})")
    if exit_status != 0:
        raise ToolError(f"{tool}: {_ended(exit_status)}: {complaint(stdout, stderr)}")


def need(found: _Found | None, otherwise: str) -> _Found:
    """Return what was *found*; raise UnreadableOutput with the words *otherwise* where nothing was."""
    if not found:
        raise UnreadableOutput(otherwise)
    return found


def need_json(tool: str, text: str) -> Any:
    """Return the document that a tool printed; raise UnreadableOutput without one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnreadableOutput(f"{tool}: no JSON: {text[:120]!r}") from exc


def label(tool: str, name: str, text: str) -> str | None:
    """
    Return what is printed on a part: up to 64 printable characters, None where it says nothing; else UnreadableOutput.
    """
    printed = text.strip()
    if not printed.isprintable() or len(printed) > 64:
        raise UnreadableOutput(f"{tool}: {name} is {printed[:60]!r}")
    return None if printed in ("", "N/A") else printed


def need_whole(tool: str, lines: list[str], stdout: str) -> list[str]:
    """Return the lines of a list that ends with a line break; raise UnreadableOutput where it is empty or was cut."""
    if not lines or not stdout.endswith("\n"):
        raise UnreadableOutput(f"{tool}: no whole list of ports: it ends with {stdout[-80:]!r}")
    return lines


def differing(answered: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """
    Yield where an output answers another question, ``asked iters 20, saw 1``; a name missing from it is no difference.
    """
    for name, value in asked.items():
        if (seen := answered.get(name, value)) != value:
            yield f"asked {name} {value}, saw {seen}"


def unanswered(answered: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield which names of a question an output does not mention."""
    if missing := [name for name in asked if name not in answered]:
        yield f"no line says {', '.join(missing)}"
