"""Options that several commands share, spelt once."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable
from functools import wraps
from math import nan
from pathlib import Path
from typing import Any, TypeVar

import click

from fabric.report.output import say, visible

_F = TypeVar("_F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)

_WHOLE = re.compile(r"-?[0-9]{1,20}")  # more digits are in no bounds, and take long to read


class Number(click.FloatRange):
    """
    A number of an option, within bounds (both are allowed).

    Not a number, infinite and absurd ones are refused in one and the same way: nan is within any bounds to a plain
    range, for every comparison with it is false.
    """

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; click's refusal, with what is expected, for anything else."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = nan
        if not self.least <= number <= self.most:
            self.fail(f"expected a number from {self.least:.12g} to {self.most:.12g}, got {value}", param, ctx)
        return number


class WholeNumber(click.IntRange):
    """A whole number of an option in plain digits, within bounds (both are allowed)."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click's refusal, with what is expected, for anything else."""
        text = str(value)
        number = int(text) if _WHOLE.fullmatch(text) else None
        if number is None or not self.least <= number <= self.most:
            self.fail(f"expected a whole number from {self.least} to {self.most}, got {value}", param, ctx)
        return number


def collect_seldom() -> None:
    """
    A plan lives as long as its command, and the collector would walk through it again and again.

    Measured: 25 to 30 % of the CPU of a run over 512 hosts.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


_SCENARIO = (
    click.argument("scenario", type=PATH),
    click.option("--inventory", type=PATH, help="Use this inventory file instead."),
    click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-004], all."),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="COMPONENT:KIND[=FACTOR]",
        help="Mock: break something, e.g. gpu003/mlx5_2:slow=0.5, gpu004:hanging. May be repeated.",
    ),
    click.option(
        "--for", "lasts", metavar="TIME", help="How long the whole run lasts, for phases with a share of it: 48h."
    ),
    click.option("--budget", metavar="TIME", help="Only what fits into this time, the most telling first: 4h, 90m."),
)


def scenario_options(function: Callable[..., int]) -> Callable[..., int]:
    """The scenario file and what overrides it, given to the command as one ``Given``."""

    @wraps(function)
    def command(*, lasts: str | None, budget: str | None, **named: Any) -> int:
        from fabric.app.prepare import Given

        words = {name: named.pop(name) for name in ("scenario", "inventory", "hosts", "faults")}
        return function(
            Given(**words, lasts_s=_seconds(lasts, "--for"), budget_s=_seconds(budget, "--budget")), **named
        )

    for decorate in reversed(_SCENARIO):
        command = decorate(command)
    return command


backend_option = click.option(
    "--backend", metavar="NAME", help="mock, ssh or process; default: what the inventory says."
)
"""How the hosts are reached."""

results_option = click.option("--results", type=PATH, default=Path("results"), show_default=True)
"""Where the runs lie."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
"""One JSON document on stdout and nothing else there."""


def _seconds(text: str | None, hint: str) -> float | None:
    """The time of an option, None where it was not given; refuses what is no duration, or above 30 days."""
    from pydantic_core import PydanticCustomError

    from fabric.config.scenario_file import LONGEST_S
    from fabric.model.fields.quantities import Duration

    try:
        return None if text is None else float(Duration(1, LONGEST_S).parse(text))
    except PydanticCustomError as exc:
        raise click.BadParameter(exc.message(), param_hint=hint) from exc


def print_json(document: object) -> None:
    """Print a JSON document, indented, UTF-8."""
    import orjson

    say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with what is hostile in them made harmless; one may hold several."""

    say("\n".join(visible(part) for line in lines for part in line.split("\n")))


def answer(document: object, lines: Iterable[str], *, as_json: bool, code: int = 0) -> int:
    """Print a document for who asked for JSON, lines for everybody else; the exit code."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)
    return code
