"""Writing to standard output and standard error, when nobody listens, the disk is full, or there is none."""

from __future__ import annotations

import os
import sys

from fabric.errors import StoreError


def say(text: str) -> None:
    """
    Print to standard output.

    A reader that went away (``| head``) is no failure: the rest is dropped, and the exit code still tells the verdict.
    Raises StoreError when the output cannot be written for another reason.
    """
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as exc:
        _drop_stdout()
        raise StoreError(f"standard output: cannot write: {exc.strerror}") from exc


def warn(text: str) -> None:
    """Print to standard error; whoever closed it does not want to know."""
    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the one place
    except (OSError, ValueError, AttributeError):
        return


def _drop_stdout() -> None:
    """Send what is still buffered to nowhere, so that it does not fail once more when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
