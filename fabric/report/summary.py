"""summary.md: what goes into a repair ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.model.text import duration_text, fold
from fabric.report.changes import change_lines, number
from fabric.report.decision import decision_of
from fabric.report.meaning import commands, headline, how_sure, impact_line, meaning
from fabric.report.output import visible
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import counts

MOST_SUSPECTS = 10
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def summary(run: ShownRun) -> str:
    """Markdown; what a host printed is never read as markup, a link or HTML."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: ShownRun) -> Iterator[str]:
    judged, verdict = run.judged, run.judged.verdict
    yield f"# {verdict.outcome.name}: {plain(judged.scenario.name)} on {len(judged.scenario.hosts)} hosts"
    yield ""
    if run.simulated:
        yield "**Simulated**: no real fabric was measured."
        yield ""
    decision = decision_of(run)
    if decision is not None:
        yield f"**{plain(decision.line)}**"
        yield ""
        yield from (f"- {plain(reason)}" for reason in decision.reasons)
        yield ""
    named = headline(verdict)
    yield f"**{plain(meaning(judged) + (f': {named}' if named else ''))}**"
    yield ""
    tally = ", ".join(f"{many} {name}" for name, many in counts(verdict).items())
    yield f"- run {plain(judged.run_id)}, {run.began or 'time unknown'}, {duration_text(judged.elapsed_s)}"
    yield f"- hosts: {plain(fold(judged.scenario.hosts))}"
    yield f"- {len(verdict.probes)} probes: {tally}"
    if judged.goes_on:
        yield "- **it goes on**: what it has not reached yet is not judged"
    elif not run.complete:
        yield "- **interrupted**: what it did not reach is not judged"
    yield from (f"- **{label.lower()}**: {code(command)}" for label, command in commands(judged))
    yield from _suspects(run)
    yield from _expected(run)
    if verdict.training is not None:
        yield ""
        yield f"For training: {plain(impact_line(verdict.training))}"
    yield ""
    limits = plain(", ".join(judged.judged_by))
    yield f"Judged by {limits}. Versions: {plain(_versions(run))}. Again: {code(judged.again)}"


def _suspects(run: ShownRun) -> Iterator[str]:
    judged, verdict = run.judged, run.judged.verdict
    for index, suspect in enumerate(verdict.suspects[:MOST_SUSPECTS], start=1):
        yield ""
        sure = f"{suspect.outcome.name}, sure: {how_sure(suspect)}"
        yield f"## {index}. {plain(suspect.component)} ({suspect.kind}): {sure}"
        yield ""
        yield from (f"- {plain(line)}" for line in suspect.evidence)
        if suspect.ambiguous_with:
            yield f"- cannot be told apart from: {plain(', '.join(suspect.ambiguous_with))}"
        yield f"- **next**: {plain(suspect.next_step)}"
        if suspect.probes:
            yield f"- output: {code(f'fabric report {judged.path} --probe {suspect.probes[0]}')}"
    rest = len(verdict.suspects) - MOST_SUSPECTS
    if rest > 0:
        yield f"\nand {rest} more suspects: see verdict.json"


def _expected(run: ShownRun) -> Iterator[str]:
    verdict = run.judged.verdict
    if verdict.expectations:
        yield "\n## Expected\n"
        yield "| outcome | expectation | found | 95 % interval | n |"
        yield "|---|---|---|---|---|"
        for one in verdict.expectations:
            value, interval = number(one)
            yield f"| {one.outcome.name} | {plain(one.text)} | {value} | {interval} | {one.n or ''} |"
    if verdict.changes:
        yield "\n## Changed on purpose\n"
        state = {"complete": run.judged.complete, "goes_on": run.judged.goes_on}
        for line in change_lines(verdict.changes, verdict.effects, run=run.judged.path, **state):
            yield f"{'  ' if line.startswith(' ') else ''}- {plain(line.strip())}"


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", visible(text))


def code(text: str) -> str:
    """Text as code; a backtick in it would end it, so it is left out."""
    return f"`{visible(text).replace('`', '')}`"


def _versions(run: ShownRun) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())
