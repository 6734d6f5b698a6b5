"""A whole command line in this process: what it prints on which stream, and its exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from fabric.cli.main import run


@dataclass(frozen=True, slots=True)
class Said:
    """What a command ended with."""

    returncode: int
    stdout: str
    stderr: str


def called(words: Sequence[str]) -> Said:
    """``fabric`` with these words from its entry point on, without the second that a new Python takes to import it."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", ["fabric", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            run()
        except SystemExit as exc:
            code = int(exc.code or 0)
    return Said(code, out.getvalue(), err.getvalue())
