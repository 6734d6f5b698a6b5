"""A whole command line in this process: what it prints on which stream, and its exit code."""

import io
import sys
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from fabric.cli.main import run


@dataclass(frozen=True, slots=True)
class Said:
    """What a command ended with."""

    returncode: int
    stdout: str
    stderr: str


def called(words: Sequence[str], cwd: Path = Path()) -> Said:
    """``fabric`` with these words in a folder, without the second that a new Python takes to import it."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patched, chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["fabric", *words])
        try:
            run()
        except SystemExit as exc:
            code = int(exc.code or 0)
    return Said(code, out.getvalue(), err.getvalue())
