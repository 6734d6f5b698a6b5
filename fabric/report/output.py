"""Write to standard output and standard error, also if the reader is gone, the disk is full, or there is none."""

import os
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from shutil import get_terminal_size
from typing import IO, Any, cast

from fabric.errors import StoreError


def say(text: str) -> None:
    """
    Print to standard output.

    A reader that went away (``| head``) is no failure: the rest is dropped, and the exit code still tells the verdict.
    Raises StoreError if the output cannot be written for another reason.
    """
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as exc:
        _drop_stdout()
        raise StoreError(f"standard output: cannot write: {exc.strerror}") from exc


def warn(text: str) -> None:
    """Print to standard error; do nothing if it is closed."""
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the one place


class _MayGoAway:
    """A terminal that may go away: from then on, what is written to it is dropped, and the writer goes on."""

    def __init__(self, inner: IO[str]) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._inner.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._inner.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def stderr_that_may_go_away() -> IO[str] | None:
    """Return standard error for a long-running writer; None if there is none."""
    return None if sys.stderr is None else cast("IO[str]", _MayGoAway(sys.stderr))


def _drop_stdout() -> None:
    """Discard what is still buffered, so that it does not fail again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_MOST = 600
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return the text on one line, control and direction characters written as escapes, cut at 600 characters."""
    shown = _HARMFUL.sub(lambda found: repr(found[0])[1:-1], text)
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}... ({len(shown) - _MOST} more characters)"


WIDTH = 160
"""The most characters of a line (a choice: what a wide terminal and a ticket show without scrolling)."""

_NARROWEST = 40
"""The fewest characters behind an indent, however narrow the terminal is (a choice: shorter lines cannot be read)."""

VERBATIM = "by hand:"
"""Marks a line with a command to be copied: such a line is never broken."""


def wrapped(text: str) -> list[str]:
    """
    Return the lines of one line of text, as wide as the terminal, and at most ``WIDTH``; a longer word is left whole.

    Text that goes elsewhere, into a file or a ticket, does not depend on a terminal.
    """
    indent = " " * (len(text) - len(text.lstrip(" ")))
    width = WIDTH
    if sys.stdout is not None and sys.stdout.isatty():
        width = min(WIDTH, max(_NARROWEST + len(indent), get_terminal_size((WIDTH, 24)).columns))
    if len(text) <= width or VERBATIM in text:
        return [text]
    return textwrap.wrap(
        text.lstrip(" "),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


TEST_FIELDS = ("a", "b", "via", "why")
"""The fields of a recommended test in a document."""


def jsonable(value: Any, fields: Sequence[str] = ()) -> Any:
    """Return a frozen model as JSON values: outcomes as words, tuples as lists; with *fields* only these fields."""
    import orjson  # not above: ``fabric --help`` prints, too

    if fields:
        return {name: jsonable(getattr(value, name)) for name in fields}
    return orjson.loads(orjson.dumps(value))


def columns(rows: Iterable[Sequence[str]], right: Collection[int] = (), gap: str = "  ") -> list[str]:
    """Return one line per row, cells as wide as their column needs; the columns in *right* are right-aligned."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    return [
        gap.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in listed
    ]
