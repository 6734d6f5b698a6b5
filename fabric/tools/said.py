"""What a tool said, made readable: without colours, only whole lines, and the one line that says what is wrong."""

from __future__ import annotations

import re

from fabric.errors import ToolError

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MOST = 200  # characters of a quoted line


def plain(text: str) -> str:
    """Text without colours and carriage returns."""
    return _COLOUR.sub("", text).replace("\r", "")


def whole_lines(text: str) -> list[str]:
    """
    The lines that were printed to their end.

    A last line without a line break may be cut in the middle of a number, so it is not one.
    """
    lines = plain(text).split("\n")
    return lines[:-1]


def complaint(stdout: str, stderr: str) -> str:
    """The line that says what is wrong: the first with ``-E-`` or ``error``, else the last one of all."""
    lines = [line.strip() for text in (stderr, stdout) for line in plain(text).splitlines() if line.strip()]
    marked = [line for line in lines if "-E-" in line or "error" in line.lower()]
    first = [line for text in (stderr, stdout) for line in plain(text).splitlines() if line.strip()][-1:]
    found = marked[:1] or first
    return found[0].strip()[:_MOST] if found else "no output"


def need_success(tool: str, stdout: str, stderr: str, exit_status: int) -> None:
    """Raise ToolError with the tool's own words when it did not end well."""
    if exit_status == 127:
        raise ToolError(f"{tool} is not there (exit 127: {complaint(stdout, stderr)})")
    if exit_status != 0:
        raise ToolError(f"{tool}: exit {exit_status}: {complaint(stdout, stderr)}")
