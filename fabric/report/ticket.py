"""A suspect as a repair ticket: Markdown for a person and the vendor, made anew with the other reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.part import Part
from fabric.model.text import duration_text
from fabric.model.verdict import Suspect
from fabric.report.meaning import how_sure
from fabric.report.output import visible
from fabric.report.shown_run import ShownRun
from fabric.report.summary import code, plain
from fabric.runs.raw import raw_entries

MOST = 50
"""Tickets of one run (a choice): a fabric with more bad parts has one cause, and summary.md has them all."""

MOST_PROBES = 2  # whose output is copied: the worst
MOST_LINES, MOST_WIDTH = 60, 200  # of the output of each

_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")


def tickets(run: ShownRun) -> dict[str, str]:
    """File name and text of the ticket of each suspect, the first of them for the surest."""
    found: dict[str, str] = {}
    for suspect in run.judged.verdict.suspects[:MOST]:
        name = _UNSAFE.sub("-", suspect.component).strip("-.")[:80] or "part"
        again = f"-{len(found) + 1}" if f"{name}.md" in found else ""
        found[f"{name}{again}.md"] = "\n".join(_lines(run, suspect)) + "\n"
    return found


def _lines(run: ShownRun, suspect: Suspect) -> Iterator[str]:
    judged = run.judged
    yield f"# {suspect.outcome.name}: {plain(suspect.component)} ({suspect.kind})"
    yield ""
    if run.simulated:
        yield "**Simulated**: no real fabric was measured."
        yield ""
    yield f"**Do next**: {plain(suspect.next_step)}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {plain(text)} |" for name, text in facts(suspect))
    yield f"| run | {plain(f'{judged.scenario.name}/{judged.run_id}')}, {run.began or 'time unknown'} |"
    yield f"| judged by | {plain(', '.join(judged.judged_by))} |"
    yield ""
    yield "## Evidence"
    yield ""
    yield from (f"- {plain(line)}" for line in suspect.evidence)
    if suspect.outcome.name == "FAIL":
        yield ""
        yield "## For the vendor"
        yield ""
        yield plain(_for_the_vendor(run, suspect))
    yield ""
    yield "## What was run, and what it printed"
    for probe in suspect.probes[:MOST_PROBES]:
        yield ""
        yield code(f"fabric report {judged.path} --probe {probe}")
        yield ""
        yield from (f"    {line}" for line in _output(Path(judged.path), probe))


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
        ("direction", suspect.direction or ""),
        ("host", ", ".join(suspect.hosts)),
        ("rack", suspect.rack or ""),
        ("leaf", suspect.leaf or ""),
        ("serial", suspect.serial or ""),
        ("part number", suspect.part_number or ""),
        ("firmware", suspect.firmware or ""),
    ]
    return [(name, text) for name, text in found if text]


def _for_the_vendor(run: ShownRun, suspect: Suspect) -> str:
    """A paragraph that can be pasted into a request for an exchange: what, how measured, against what."""
    itself = [
        f"{name} {text}"
        for name, text in (
            ("serial number", suspect.serial),
            ("part number", suspect.part_number),
            ("firmware", suspect.firmware),
        )
        if text
    ]
    device = Part.of(suspect.component).device
    said = [f"We report a fault: {suspect.component} ({suspect.kind})."]
    said += [f"{device or suspect.component}: {', '.join(itself)}."] if itself else []
    worst, normal = suspect.worst_gbps, suspect.normal_gbps
    if worst is not None and normal is not None:
        said.append(f"It reaches {worst:.1f} Gb/s; the same measurement gives {normal:.1f} Gb/s on others of its kind.")
    tools = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return " ".join([*said, f"{suspect.evidence[-1]}.", f"Versions: {tools}."])


def _output(run: Path, probe: str) -> Sequence[str]:
    """The first lines that the commands of a probe printed, cut; why there are none, where they cannot be read."""
    try:
        text = raw_entries(run, probe)
    except StoreError as exc:
        return [visible(str(exc))]
    lines = [visible(line.expandtabs())[:MOST_WIDTH] for line in islice(text.splitlines(), MOST_LINES + 1)]
    return [*lines[:MOST_LINES], "... more: see the command above"] if len(lines) > MOST_LINES else lines
