"""The command line starts light, promises only what it has, and refuses numbers that are none."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fabric.cli.main import COMMANDS, main
from fabric.cli.options import Number, Time, WholeNumber
from tests.cli.command_line import called
from tests.runs.other_account import place, shut

__all__ = ["place"]


def test_help_imports_nothing_heavy() -> None:
    """``fabric --help`` loads none of the libraries that make a start slow."""
    code = (
        "import sys; from fabric.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'paramiko', 'pyarrow', 'rich', 'yaml', 'numpy', 'pandas', 'ClusterShell', 'orjson'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    """Each command of the list exists and has a help text."""
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_python_m_fabric_is_the_same_command() -> None:
    """Where no script is on the path, ``python -m fabric`` does the same, and calls itself so."""
    words = [sys.executable, "-m", "fabric", "run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Missing argument 'SCENARIO'. (see 'python -m fabric run --help')\n"


def test_help_lists_every_command() -> None:
    """The list of commands is what can be called."""
    output = CliRunner().invoke(main, ["--help"]).output
    assert all(name in output for name in COMMANDS)


def test_a_package_that_is_missing_is_named_with_what_to_do() -> None:
    """Nobody is told of an internal error because the environment lacks something."""
    code = (
        "import sys; sys.modules['ClusterShell'] = None; sys.argv[1:] = ['plan', 'scenarios/self-check.yaml']\n"
        "from fabric.cli.main import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert "the Python package ClusterShell is not installed here; install" in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["report"], "fabric report --help"),
        (["baseline", "record"], "fabric baseline record --help"),
        (["rn"], "fabric --help"),
    ],
)
def test_a_wrong_command_line_names_the_help_of_its_command(words: list[str], asked: str) -> None:
    assert f"(see '{asked}')" in called(words).stderr


def test_a_file_of_somebody_else_is_no_defect_of_fabric(place: Path) -> None:
    run = place / "results" / "x"
    run.mkdir(parents=True)
    called(["report", str(run)])  # what it imports may be out of reach for another account
    with shut(run):
        said = called(["report", str(run)])
    assert said.returncode == 2
    assert said.stderr.splitlines() == [f"{run}: cannot read: Permission denied", "1 problem"]


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


@pytest.mark.parametrize(
    ("command", "parameter"),
    [(command, parameter) for _, command, parameter in NUMERIC],
    ids=[" ".join((*words, str(parameter.name))) for words, _, parameter in NUMERIC],
)
def test_what_is_no_sane_number_is_refused(command: click.Command, parameter: click.Parameter) -> None:
    """The option, and what it takes, are in the message."""
    option = parameter.opts[0]
    kind = {Number: "number", WholeNumber: "whole number", Time: "duration"}[type(parameter.type)]
    for text in ABSURD:
        done = CliRunner().invoke(command, [f"{option}={text}", *["x"] * 3])
        said = " ".join(done.output.split())
        assert (done.exit_code, f"Invalid value for '{option}'" in said) == (2, True), said
        assert f"expected a {kind} from " in said


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("50", 50.0), ("3e0", 3.0)])
def test_bounds_are_within(text: str, number: float) -> None:
    """Both ends are allowed, and any way to write a decimal."""
    assert Number(0.5, 50).convert(text, None, None) == number
    assert WholeNumber(0, 50).convert("0", None, None) == 0
