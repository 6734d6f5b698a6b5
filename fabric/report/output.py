"""Writing to standard output and standard error, when nobody listens, the disk is full, or there is none."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO, Any, cast

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


class _MayGoAway:
    """A terminal, until it goes away: what is written to it then is dropped, and whoever writes goes on."""

    def __init__(self, inner: IO[str]) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._inner.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._inner.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def stderr_that_may_go_away() -> IO[str] | None:
    """Standard error for who keeps writing to it; None when there is none."""
    return None if sys.stderr is None else cast("IO[str]", _MayGoAway(sys.stderr))


def _drop_stdout() -> None:
    """Send what is still buffered to nowhere, so that it does not fail once more when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
