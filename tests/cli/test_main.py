"""The command line starts light and promises only what it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.cli.main import COMMANDS, main
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
