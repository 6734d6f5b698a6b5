"""Jinja templates of this room: HTML pages that load nothing from outside, and Markdown; no text is read as markup."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fabric.model.text import duration_text, fold
from fabric.report.output import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def page(template: str, script: str = "", **content: Any) -> str:
    """An HTML page with the style and a script that its policy names by hash."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    script_policy = f"script-src 'sha256-{digest}'" if script else "script-src 'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {script_policy}; base-uri 'none'; form-action 'none'"
    fixed = {"policy": Markup(policy), "style": Markup(text_of("report.css")), "script": Markup(script)}
    return _environment(html=True).get_template(template).render(**fixed, **content)


def markdown(template: str, **content: Any) -> str:
    """Markdown; what a host printed is never read as markup, a link or HTML."""
    return _environment(html=False).get_template(template).render(**content)


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", visible(text))


def code(text: str) -> Markup:
    """Text as code in Markdown; a backtick in it would end it, so it is left out."""
    return Markup(f"`{visible(text).replace('`', '')}`")


def text_of(name: str) -> str:
    """A file beside the templates."""
    return files("fabric.report").joinpath("templates", name).read_text("utf-8")


@cache
def _environment(*, html: bool) -> Environment:
    """What is no Markup is escaped; before that it loses what hides or reverses letters."""
    harmless = visible if html else plain
    made = Environment(
        loader=PackageLoader("fabric.report"),
        autoescape=html,
        undefined=StrictUndefined,
        finalize=lambda value: harmless(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not html,
    )
    made.filters.update(fold=fold, duration=duration_text, code=code)
    return made
