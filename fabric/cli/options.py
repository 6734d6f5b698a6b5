"""Options that several commands share, spelt once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def scenario_options(function: _F) -> _F:
    """The scenario file and what overrides it."""
    for decorate in reversed(
        (
            click.argument("scenario", type=click.Path(path_type=Path)),
            click.option("--inventory", type=click.Path(path_type=Path), help="Use this inventory file instead."),
            click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-004], all."),
            click.option(
                "--fault",
                "faults",
                multiple=True,
                metavar="COMPONENT:KIND[=FACTOR]",
                help="Mock: break something, e.g. gpu003/mlx5_2:slow=0.5, gpu004:hanging. May be repeated.",
            ),
        )
    ):
        function = decorate(function)
    return function


def lasting_option(function: _F) -> _F:
    """How long the whole run lasts, for phases that have a share of it."""
    return click.option(
        "--for", "lasts", metavar="TIME", help="How long the whole run lasts, for phases with a share of it: 48h."
    )(function)


def seconds(text: str | None, hint: str) -> float | None:
    """The time of an option, None where it was not given; refuses what is no duration, or above 30 days."""
    from pydantic_core import PydanticCustomError

    from fabric.config.quantities import Duration
    from fabric.config.scenario_file import LONGEST_S

    try:
        return None if text is None else float(Duration(1, LONGEST_S).parse(text))
    except PydanticCustomError as exc:
        raise click.BadParameter(exc.message(), param_hint=hint) from exc


def json_option(function: _F) -> _F:
    """One JSON document on stdout and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")(function)


def print_json(document: object) -> None:
    """Print a JSON document, indented, UTF-8."""
    import orjson

    from fabric.report.output import say

    say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
