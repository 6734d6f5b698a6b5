"""summary.md, the whole run for a ticket or a chat, and tickets/<part>.md, a repair ticket for each suspect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from fabric.errors import StoreError
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import duration_text
from fabric.model.verdict import Suspect
from fabric.report.changes import change_lines, number
from fabric.report.decision import decision_of
from fabric.report.meaning import commands, evidence, headline, how_sure, impact_line, meaning
from fabric.report.output import visible
from fabric.report.shown_run import ShownRun
from fabric.report.templates import markdown
from fabric.report.verdict_json import counts
from fabric.runs.raw import raw_entries

MOST_SUSPECTS = 10

MOST_TICKETS = 50
"""Tickets of one run (a choice): a fabric with more bad parts has one cause, and summary.md has them all."""

MOST_PROBES = 2  # whose output is copied: the worst
MOST_LINES, MOST_WIDTH = 60, 200  # of the output of each

_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")


def summary(run: ShownRun) -> str:
    """summary.md."""
    judged, verdict = run.judged, run.judged.verdict
    state = {"complete": judged.complete, "goes_on": judged.goes_on}
    return markdown(
        "summary.md.j2",
        run=run,
        judged=judged,
        verdict=verdict,
        decision=decision_of(run),
        meaning=": ".join(filter(None, (meaning(judged), headline(verdict)))),
        tally=", ".join(f"{many} {name}" for name, many in counts(verdict).items()),
        commands=commands(judged),
        suspects=[(one, how_sure(one), evidence(one)) for one in verdict.suspects[:MOST_SUSPECTS]],
        more=len(verdict.suspects) - MOST_SUSPECTS,
        expected=[(one, *number(one)) for one in verdict.expectations],
        changed=list(change_lines(verdict.changes, verdict.effects, run=judged.path, **state)),
        training=impact_line(verdict.training) if verdict.training else "",
        versions=_versions(run),
    )


def tickets(run: ShownRun) -> dict[str, str]:
    """File name and text of the ticket of each suspect, the first of them for the surest."""
    found: dict[str, str] = {}
    for suspect in run.judged.verdict.suspects[:MOST_TICKETS]:
        name = _UNSAFE.sub("-", suspect.component).strip("-.")[:80] or "part"
        again = f"-{len(found) + 1}" if f"{name}.md" in found else ""
        found[f"{name}{again}.md"] = _ticket(run, suspect)
    return found


def _ticket(run: ShownRun, suspect: Suspect) -> str:
    path = Path(run.judged.path)
    return markdown(
        "ticket.md.j2",
        run=run,
        judged=run.judged,
        one=suspect,
        evidence=evidence(suspect),
        facts=facts(suspect),
        for_the_vendor=_for_the_vendor(run, suspect) if suspect.outcome is Outcome.FAIL else "",
        printed=[(probe, _output(path, probe)) for probe in suspect.probes[:MOST_PROBES]],
    )


def facts(suspect: Suspect) -> list[tuple[str, str]]:
    """What is known of a suspect in words, by name; what is not known is left out."""
    worst, normal = suspect.worst_gbps, suspect.normal_gbps
    found = [
        ("sure", how_sure(suspect)),
        ("or", ", ".join(suspect.ambiguous_with)),
        ("loss", "" if suspect.loss is None else f"{suspect.loss:.0%} (median of what did not pass)"),
        ("worst", "" if worst is None else f"{worst:.1f} Gb/s" + ("" if normal is None else f", normal {normal:.1f}")),
        ("how often", "" if suspect.rate is None else f"{suspect.rate:.0%} of the probes through it"),
        ("since", "" if suspect.since_s is None else f"{duration_text(suspect.since_s)} into the run"),
        ("direction", suspect.direction),
        ("host", ", ".join(suspect.hosts)),
        ("rack", suspect.rack),
        ("leaf", suspect.leaf),
        *_itself(suspect),
    ]
    return [(name, text) for name, text in found if text]


def _itself(suspect: Suspect) -> list[tuple[str, str | None]]:
    return [("serial", suspect.serial), ("part number", suspect.part_number), ("firmware", suspect.firmware)]


def _for_the_vendor(run: ShownRun, suspect: Suspect) -> str:
    """A paragraph that can be pasted into a request for an exchange: what, how measured, against what."""
    itself = [f"{name.replace('serial', 'serial number')} {text}" for name, text in _itself(suspect) if text]
    said = [f"We report a fault: {suspect.component} ({suspect.kind})."]
    said += [f"{Part.of(suspect.component).device or suspect.component}: {', '.join(itself)}."] if itself else []
    worst, normal = suspect.worst_gbps, suspect.normal_gbps
    if worst is not None and normal is not None:
        said.append(f"It reaches {worst:.1f} Gb/s; the same measurement gives {normal:.1f} Gb/s on others of its kind.")
    return " ".join([*said, f"{evidence(suspect)[-1]}.", f"Versions: {_versions(run)}."])


def _versions(run: ShownRun) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


def _output(run: Path, probe: str) -> Sequence[Markup]:
    """The first lines that the commands of a probe printed, cut; why there are none, where they cannot be read."""
    try:
        text = raw_entries(run, probe)
    except StoreError as exc:
        text = str(exc)
    lines = [Markup(visible(line.expandtabs())[:MOST_WIDTH]) for line in islice(text.splitlines(), MOST_LINES + 1)]
    return [*lines[:MOST_LINES], Markup("... more: see the command above")] if len(lines) > MOST_LINES else lines
