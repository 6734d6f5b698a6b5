"""Undo without a guard: when the target knows nothing of a change any more, look, and undo by hand where needed."""

from __future__ import annotations

import re

from fabric.changes.procedure import Procedure, ask
from fabric.errors import ChangeError
from fabric.model.change import Alteration, Argv, Check
from fabric.model.command import CommandResult


class StillLive(ChangeError):
    """The undo was run and what was seen before is not there again."""


def undo_unguarded(alteration: Alteration, *, sudo: bool) -> Procedure[bool]:
    """
    See that the state from before is there; where it is not, run the undo and look again.

    Returns whether something had to be undone. Raises StillLive when it is not there after that.
    """
    if not (yield from _unmet(alteration, sudo=sudo)):
        return False
    for argv in alteration.undo:
        yield from ask(alteration.host, _as_root(argv, sudo=sudo))
    unmet = yield from _unmet(alteration, sudo=sudo)
    if unmet:
        raise StillLive(unmet)
    return True


def _unmet(alteration: Alteration, *, sudo: bool) -> Procedure[str]:
    """The first check that does not hold, with what was seen; empty when all do."""
    for check in alteration.checks:
        answer = yield from ask(alteration.host, _as_root(check.argv, sudo=sudo))
        said = unmet(check, answer)
        if said:
            return said
    return ""


def unmet(check: Check, answer: CommandResult) -> str:
    """Why an answer does not meet a check; empty when it does. The guard judges the same with ``grep -E``."""
    what = " ".join(check.argv)
    if answer.exit_status != 0:
        last = (answer.stderr.strip() or answer.stdout.strip() or "no output").splitlines()[-1]
        return f"{what}: exit {answer.exit_status}: {last[:200]}"
    lines = answer.stdout.splitlines()
    for pattern in check.patterns:
        if not any(re.search(pattern, line) for line in lines):
            return f"{what}: no line matches {pattern}"
    return ""


def _as_root(argv: Argv, *, sudo: bool) -> Argv:
    return ("sudo", "-n", *argv) if sudo else argv
