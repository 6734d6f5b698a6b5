"""What the engineer reads at the end: the verdict first, then suspects with evidence, then what to do next."""

from __future__ import annotations

import os
import sys

import click

from fabric.model.verdict import JudgedRun
from fabric.report import templates
from fabric.report.output import columns, say, visible
from fabric.report.shown_verdict import ShownVerdict, shown_verdict

_MOST = 20
"""Suspects, and rows of changes; more are in verdict.json."""


def print_verdict(judged: JudgedRun) -> None:
    """Print it; colour only on a terminal."""
    print_coloured(verdict_text(judged))


def print_coloured(text: str) -> None:
    """Print it; without its colours where no terminal is at the other end, or nobody wants them."""
    coloured = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    say(text if coloured else click.unstyle(text))


def verdict_text(judged: JudgedRun) -> str:
    """The same, with colours; names and outputs are never read as control characters."""
    told = shown_verdict(judged)
    rows = [
        (one.phase, one.what, one.where, "; ".join(filter(None, (one.held, one.effect))))
        for one in told.changes[:_MOST]
    ]
    return templates.text(
        "verdict.txt.j2",
        told=told,
        judged=judged,
        verdict=judged.verdict,
        expected=_expected(told),
        changed=columns(rows) if rows else [],
        most=_MOST,
    )


def _expected(told: ShownVerdict) -> list[str]:
    """Of each expectation the line after its outcome: value, interval, n, words; no column that is always empty."""
    cells = [(one.value, one.interval, f"n {one.one.n}" if one.one.n else "", one.one.text) for one in told.expected]
    known = [column for column in zip(*cells, strict=True) if any(column)]
    return [visible(line) for line in columns(zip(*known, strict=True))]
