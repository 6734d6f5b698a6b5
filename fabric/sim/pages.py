"""The pages that tools print, as templates beside this room: a real tool's text with its words left open."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("fabric.sim"), undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )


def page(name: str, /, **words: object) -> str:
    """A page by the name of its template (``templates/NAME.j2``), with its words put in."""
    return _environment().get_template(f"{name}.j2").render(words)


def named(text: str) -> dict[str, str]:
    """``Name=value``, one a line, by name: what tools print in several layouts."""
    return dict(line.split("=", 1) for line in text.splitlines())
