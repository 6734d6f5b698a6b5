"""Long lines of a verdict at a width that can be read, further lines indented a little more than the first."""

from __future__ import annotations

import textwrap

WIDTH = 160
"""The most characters of a line (a choice: what a wide terminal and a ticket show without scrolling)."""

VERBATIM = "by hand:"
"""Before a command that is to be copied: such a line is never broken."""


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """The lines of one line of text; a word that is longer than *width* is left whole."""
    if len(text) <= width or VERBATIM in text:
        return [text]
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return textwrap.wrap(
        text.lstrip(" "),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
