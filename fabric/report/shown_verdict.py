"""A judged run in words, for the console, report.html, summary.md and tickets to print in their own form."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fabric.model.outcome import Outcome, ReasonKind
from fabric.model.part import Part
from fabric.model.text import counted, duration_text, fold
from fabric.model.verdict import ExpectationVerdict, JudgedRun, Suspect, Verdict
from fabric.report.changes import ChangeRow, after_expectation, change_rows
from fabric.report.meaning import commands, faults_line, impact_line, kept_line, meaning, part_words
from fabric.report.verdict_json import ShownHall, counts, shown_hall

MARGIN = re.compile(r" \(margin (-?\d+\.\d) nats\)")
"""Matches the odds as ``pairs/findings.py`` writes them at the end of a line: a number for programs, not for people."""

_NOTES = (ReasonKind.NOTE, ReasonKind.LINKS)
_OF_A_HOST = ("rnic", "path", "link", "gpu", "gpu_pcie", "numa")


class ShownSuspect(NamedTuple):
    """
    A suspect in *words*.

    *sure*: how sure it is; *evidence*: its lines, without the odds as numbers; *severity*: how bad it was; *where*: its
    place; *rows*: the text that finds its rows in the page's table.
    """

    suspect: Suspect
    words: str
    sure: str
    evidence: tuple[str, ...]
    severity: str
    where: str
    rows: str


class ShownExpectation(NamedTuple):
    """An expectation with what was found, its interval, and what to do if it was not met."""

    one: ExpectationVerdict
    value: str
    interval: str
    step: str


@dataclass(frozen=True)
class ShownVerdict:
    """
    A verdict in words.

    *means*: the outcome; *faults*: the bad parts; *kept*: what the job kept under faults made on purpose; *on_purpose*:
    the changes, and whether they are taken back; *tally*: counts of probes; *commands*: what to type first; *reasons*
    of what did not pass, and *notes*; *training*: what a measured failure rate means for training, or why that is not
    known.
    """

    means: str
    faults: str
    kept: str
    on_purpose: str
    hosts: str
    tally: str
    commands: tuple[tuple[str, str], ...]
    suspects: tuple[ShownSuspect, ...]
    expected: tuple[ShownExpectation, ...]
    changes: tuple[ChangeRow, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    hall: ShownHall | None
    training: str


def shown_verdict(judged: JudgedRun) -> ShownVerdict:
    """Return the verdict on a run in words."""
    verdict, hosts = judged.verdict, judged.scenario.hosts
    changes = change_rows(judged)
    reasons = tuple(_reasons(verdict, changes))
    notes = tuple(one.text for one in verdict.reasons if one.kind in _NOTES)
    if verdict.outcome is Outcome.PASS:
        reasons, notes = (), (*notes, *reasons)
    clock = " of simulated time" if judged.backend == "mock" else ""
    tally = ", ".join(f"{number:,} {name}" for name, number in counts(verdict).items())
    return ShownVerdict(
        means=meaning(judged),
        faults=faults_line(verdict),
        kept=kept_line(judged),
        on_purpose="; ".join(_on_purpose(verdict)),
        hosts=f"{counted(len(hosts), 'host')} ({fold(hosts)})",
        tally=f"{counted(len(verdict.probes), 'probe')} in {duration_text(judged.elapsed_s)}{clock}: {tally}",
        commands=commands(judged),
        suspects=tuple(map(shown_suspect, verdict.suspects)),
        expected=tuple(
            ShownExpectation(one, *one.number, after_expectation(one, judged)) for one in verdict.expectations
        ),
        changes=changes,
        reasons=reasons,
        notes=notes,
        hall=None if verdict.hall is None else shown_hall(verdict.hall),
        training=impact_line(verdict.training) if verdict.training else "",
    )


def shown_suspect(one: Suspect) -> ShownSuspect:
    """Return a suspect in words."""
    alike = f", one of {len(one.ambiguous_with) + 1} alike" if one.ambiguous_with else ""
    severity = []
    if one.worst_gbps is not None and one.normal_gbps:
        lost = f"{100 * (one.worst_gbps / one.normal_gbps - 1):+.0f} %"
        severity.append(f"worst {one.worst_gbps:,.0f} of {one.normal_gbps:,.0f} Gb/s ({lost})")
    if one.rate is not None:
        severity.append(f"bad in {one.rate:.0%} of the probes through it")
    all_of_it = fold(one.hosts) if one.kind == "rack" else ""
    places = (("hosts", all_of_it), ("rack", one.rack), ("leaf", one.leaf), ("serial number", one.serial))
    part = Part.of(one.component)
    own = one.kind in _OF_A_HOST and "/" in one.component
    return ShownSuspect(
        one,
        part_words(one.component, one.kind),
        f"{one.confidence:.0%}{alike}",
        tuple(MARGIN.sub("", line) for line in one.evidence),
        ", ".join(severity),
        "; ".join(f"{name} {text}" for name, text in places if text),
        f"{part.host}/{part.device}" if own else "".join(one.hosts[:1]),
    )


def _reasons(verdict: Verdict, changes: tuple[ChangeRow, ...]) -> Iterator[str]:
    """Yield what did not pass, without the reason of a change that is already shown beside the change."""
    shown_lines = {line for row in changes for line in row.below}
    for reason in (one.text for one in verdict.reasons if one.kind not in _NOTES):
        text = reason
        for one in verdict.changes:
            if one.reason in shown_lines:
                text = text.replace(f"{one.state}: {one.reason}", f"{one.state} (see Changes)")
        yield text


def _on_purpose(verdict: Verdict) -> Iterator[str]:
    """Yield how much was altered, whether it is taken back, and how many expectations were met."""
    if verdict.changes:
        back = sum(one.state == "reverted" for one in verdict.changes)
        many = len(verdict.changes)
        yield f"{counted(many, 'change')} made on purpose, {'all' if back == many else back} taken back"
    if verdict.expectations:
        met = sum(one.outcome is Outcome.PASS for one in verdict.expectations)
        yield f"{met} of {len(verdict.expectations)} expectations met"
