"""The simulated rack: answers a command line in the real tool's own words.

The pages that tools print are templates in this room: a real tool's text with placeholders for its values.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("fabric.sim")
    return Environment(
        loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, auto_reload=False
    )


def page(name: str, /, **words: object) -> str:
    """Return the page of a template (``templates/NAME.j2``) with *words* put in."""
    return _environment().get_template(f"{name}.j2").render(words)
