"""A judged run as text: the console with the verdict first, summary.md, and a ticket for each suspect."""

import os
import re
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import click
from markupsafe import Markup

from fabric.errors import StoreError
from fabric.model.part import Part
from fabric.model.text import duration_text
from fabric.model.verdict import JudgedRun
from fabric.report import templates
from fabric.report.decision import decision_of
from fabric.report.output import columns, say, visible
from fabric.report.shown_run import ShownRun
from fabric.report.shown_verdict import ShownSuspect, ShownVerdict, shown_suspect, shown_verdict
from fabric.report.templates import markdown
from fabric.runs.run_directory import raw_entries

_MOST = 20
"""The most suspects, and rows of changes; all are in verdict.json."""


def print_coloured(text: str) -> None:
    """Print a text; without its colours if standard output is no terminal, or NO_COLOR is set."""
    coloured = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    say(text if coloured else click.unstyle(text))


def verdict_text(judged: JudgedRun) -> str:
    """Return the verdict with colours; names and outputs are never read as control characters."""
    shown = shown_verdict(judged)
    rows = [
        (one.phase, one.what, one.where, "; ".join(filter(None, (one.held, one.effect))))
        for one in shown.changes[:_MOST]
    ]
    return templates.text(
        "verdict.txt.j2",
        shown=shown,
        judged=judged,
        verdict=judged.verdict,
        expected=_expected(shown),
        changed=columns(rows),
        most=_MOST,
    )


def _expected(shown: ShownVerdict) -> list[str]:
    """Return for each expectation the line after its outcome: value, interval, n, words; empty columns are left out."""
    cells = [(one.value, one.interval, f"n {one.one.n}" if one.one.n else "", one.one.text) for one in shown.expected]
    known = [column for column in zip(*cells, strict=True) if any(column)]
    return [visible(line) for line in columns(zip(*known, strict=True))]


MOST_SUSPECTS = 10

MOST_TICKETS = 50
"""The most tickets of one run (a choice): a fabric with more bad parts has one cause, and summary.md has them all."""

MOST_PROBES = 2  # the most probes whose output is copied: the worst
MOST_LINES, MOST_WIDTH = 60, 200  # of each probe's output

_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")


def summary(run: ShownRun) -> str:
    """Return the text of summary.md."""
    judged, shown = run.judged, shown_verdict(run.judged)
    return markdown("summary.md.j2", run=run, judged=judged, shown=shown, decision=decision_of(run), most=MOST_SUSPECTS)


def tickets(run: ShownRun) -> dict[str, str]:
    """Return file name and text of each suspect's ticket, the surest suspect first."""
    found: dict[str, str] = {}
    for suspect in run.judged.verdict.suspects[:MOST_TICKETS]:
        name = _UNSAFE.sub("-", suspect.component).strip("-.")[:80] or "part"
        again = f"-{len(found) + 1}" if f"{name}.md" in found else ""
        found[f"{name}{again}.md"] = _ticket(run, shown_suspect(suspect))
    return found


def _ticket(run: ShownRun, shown: ShownSuspect) -> str:
    path, one = Path(run.judged.path), shown.suspect
    return markdown(
        "ticket.md.j2",
        run=run,
        judged=run.judged,
        shown=shown,
        one=one,
        facts=facts(shown),
        device=Part.of(one.component).device or one.component,
        printed=[(probe, _output(path, probe)) for probe in one.probes[:MOST_PROBES]],
    )


def facts(shown: ShownSuspect) -> list[tuple[str, str]]:
    """Return what is known of a suspect, by name, in words; unknown facts are left out."""
    one = shown.suspect
    worst, normal = one.worst_gbps, one.normal_gbps
    found = [
        ("sure", shown.sure),
        ("or", ", ".join(one.ambiguous_with)),
        ("loss", "" if one.loss is None else f"{one.loss:.0%} (median of what did not pass)"),
        ("worst", "" if worst is None else f"{worst:.1f} Gb/s" + ("" if normal is None else f", normal {normal:.1f}")),
        ("how often", "" if one.rate is None else f"{one.rate:.0%} of the probes through it"),
        ("since", "" if one.since_s is None else f"{duration_text(one.since_s)} into the run"),
        ("direction", one.direction),
        ("host", ", ".join(one.hosts)),
        *(
            (name, getattr(one, name.replace(" ", "_")))
            for name in ("rack", "leaf", "serial", "part number", "firmware")
        ),
    ]
    return [(name, text) for name, text in found if text]


def _output(run: Path, probe: str) -> Sequence[Markup]:
    """Return the first lines that the commands of a probe printed, cut; or why they cannot be read."""
    try:
        text = raw_entries(run, probe)
    except StoreError as exc:
        text = str(exc)
    lines = [Markup(visible(line.expandtabs())[:MOST_WIDTH]) for line in islice(text.splitlines(), MOST_LINES + 1)]
    return [*lines[:MOST_LINES], Markup("... more: see the command above")] if len(lines) > MOST_LINES else lines
