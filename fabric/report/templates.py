"""Jinja templates of this room: HTML that loads nothing from outside, Markdown, text; no value is read as markup."""

import re
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, Literal

import click
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.text import counted, duration_text, fold, some
from fabric.report.output import visible, wrapped

_SPACES = re.compile(r" +$", re.MULTILINE)
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def page(template: str, script: str = "", **content: Any) -> str:
    """Return an HTML page with the style, and a script that its policy allows by hash."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    script_policy = f"script-src 'sha256-{digest}'" if script else "script-src 'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {script_policy}; base-uri 'none'; form-action 'none'"
    fixed = {"policy": Markup(policy), "style": Markup(text_of("report.css")), "script": Markup(script)}
    return _environment("html").get_template(template).render(**fixed, **content)


def markdown(template: str, **content: Any) -> str:
    """Return Markdown; what a host printed is never read as markup, a link or HTML."""
    return _environment("markdown").get_template(template).render(**content)


def text(template: str, **content: Any) -> str:
    """Return text for a terminal, with colours; no line ends with spaces."""
    return _SPACES.sub("", _environment("text").get_template(template).render(**content))


def plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", visible(text))


def code(text: str) -> Markup:
    """Return text as code in Markdown; backticks, which would end the code, are removed."""
    return Markup(f"`{visible(text).replace('`', '')}`")


def text_of(name: str) -> str:
    """Return the text of a file beside the templates."""
    return files("fabric.report").joinpath("templates", name).read_text("utf-8")


_COLOURS = {
    Outcome.PASS: "green",
    Outcome.SKIPPED: "cyan",
    Outcome.MARGINAL: "yellow",
    Outcome.INCONCLUSIVE: "magenta",
    Outcome.ERROR: "magenta",
    Outcome.FAIL: "red",
}


def _badge(outcome: Outcome, width: int = 0) -> Markup:
    return Markup(click.style(outcome.name, fg=_COLOURS[outcome], bold=True) + " " * (width - len(outcome.name)))


def styled(text: str, **style: Any) -> Markup:
    """Return text in colour, as ``click.style`` takes it."""
    return Markup(click.style(visible(text), **style, reset=bool(style)))


def _wrapped(text: str, indent: int = 0) -> Markup:
    return Markup("\n".join(wrapped(" " * indent + visible(text))))


@cache
def _environment(kind: Literal["html", "markdown", "text"]) -> Environment:
    """
    Return the Jinja environment of a kind; strings that are not Markup are cleaned of hiding characters and escaped.
    """
    harmless = plain if kind == "markdown" else visible
    made = Environment(
        loader=PackageLoader("fabric.report"),
        autoescape=kind == "html",
        undefined=StrictUndefined,
        finalize=lambda value: harmless(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=kind != "html",
    )
    made.filters.update(
        fold=fold, duration=duration_text, code=code, counted=counted, some=some, zip=zip, ljust=str.ljust
    )
    made.filters.update(badge=_badge, bold=partial(styled, bold=True), styled=styled, wrapped=_wrapped)
    return made
