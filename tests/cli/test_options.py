"""A number that is none, or absurd, is refused by every option in the same words, with exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from fabric.cli.main import COMMANDS
from fabric.cli.options import Number, Time, WholeNumber

ABSURD = ("nan", "inf", "-inf", "1e308", "1e999", "-1", "1_000_000_000", "9" * 5000, "ten", "")


def commands(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand, with its words."""
    if not isinstance(group, click.Group):
        yield words, group
        return
    for name, command in group.commands.items():
        yield from commands(command, (*words, name))


ALL = [
    (words, command)
    for name, (module, _) in COMMANDS.items()
    for words, command in commands(getattr(import_module(f"fabric.cli.{module}"), f"{name}_command"), (name,))
]
NUMERIC = [
    (words, command, parameter)
    for words, command in ALL
    for parameter in command.params
    if isinstance(parameter.type, Number)
]


def test_no_option_takes_a_number_of_another_type() -> None:
    """click's own types let nan pass, or have no upper bound."""
    plain = (click.types.FloatParamType, click.types.IntParamType)
    others = [
        (*words, parameter.name)
        for words, command in ALL
        for parameter in command.params
        if isinstance(parameter.type, plain)
    ]
    assert len(NUMERIC) >= 12
    assert others == []


@pytest.mark.parametrize("text", ABSURD, ids=lambda text: text[:20])
@pytest.mark.parametrize(
    ("command", "parameter"),
    [(command, parameter) for _, command, parameter in NUMERIC],
    ids=[" ".join((*words, str(parameter.name))) for words, _, parameter in NUMERIC],
)
def test_what_is_no_sane_number_is_refused(command: click.Command, parameter: click.Parameter, text: str) -> None:
    """The option, and what it takes, are in the message."""
    option = parameter.opts[0]
    done = CliRunner().invoke(command, [f"{option}={text}", *["x"] * 3])
    assert done.exit_code == 2
    kind = {Number: "number", WholeNumber: "whole number", Time: "duration"}[type(parameter.type)]
    said = " ".join(done.output.split())
    assert f"Invalid value for '{option}'" in said
    assert f"expected a {kind} from " in said


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("50", 50.0), ("3e0", 3.0)])
def test_bounds_are_within(text: str, number: float) -> None:
    """Both ends are allowed, and any way to write a decimal."""
    assert Number(0.5, 50).convert(text, None, None) == number
    assert WholeNumber(0, 50).convert("0", None, None) == 0
