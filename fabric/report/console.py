"""What the engineer reads at the end: the verdict first, then suspects with evidence, then what to do next."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from io import StringIO

from rich.console import Console
from rich.text import Text

from fabric.model.change import ChangeResult, ChangeSettings
from fabric.model.outcome import Outcome
from fabric.model.scenario import Scenario
from fabric.model.text import NOTE, duration_text, fold
from fabric.model.verdict import JudgedRun, Suspect
from fabric.plan.plan import PhasePlan, Plan
from fabric.report.changes import after_expectation, change_lines, expectation_rows
from fabric.report.hall import hall_lines
from fabric.report.meaning import commands, evidence, how_sure, impact_line, is_known, meaning
from fabric.report.output import counted, say, visible, wrapped
from fabric.report.plan import folded_rounds, phase_lines, warning_lines
from fabric.report.verdict_json import counts

_STYLE = {
    Outcome.PASS: "bold green",
    Outcome.SKIPPED: "bold cyan",
    Outcome.MARGINAL: "bold yellow",
    Outcome.INCONCLUSIVE: "bold magenta",
    Outcome.ERROR: "bold magenta",
    Outcome.FAIL: "bold red",
}

_MOST_SUSPECTS = 20


def print_verdict(judged: JudgedRun) -> None:
    """Print it; colour only on a terminal."""
    console, buffer = _console()
    show_verdict(judged, console)
    say(buffer.getvalue())


def print_plan(
    plan: Plan, *, scenario: Scenario, notes: Sequence[str] = (), settings: ChangeSettings | None = None
) -> None:
    """Print what would run; *notes* say what the limits do not fit, *settings* how changes are made there."""
    console, buffer = _console()
    show_plan(plan, console, scenario=scenario, notes=notes, settings=settings)
    say(buffer.getvalue())


def _console() -> tuple[Console, StringIO]:
    """A console that writes to memory, so that only ``say`` has to care about what is at the other end."""
    buffer = StringIO()
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(file=buffer, force_terminal=terminal, highlight=False, soft_wrap=True), buffer


def show_verdict(judged: JudgedRun, out: Console) -> None:
    """Write it to a console; names and outputs are never read as markup."""
    verdict, scenario = judged.verdict, judged.scenario
    clock = " of simulated time" if judged.backend == "mock" else ""
    out.print(
        Text.assemble(
            (verdict.outcome.name, _STYLE[verdict.outcome]),
            f"  {scenario.name} on {_hosts(scenario)}: {meaning(judged)}",
        )
    )
    tally = ", ".join(f"{number:,} {name}" for name, number in counts(verdict).items())
    out.print(
        Text(f"      {counted(len(verdict.probes), 'probe')} in {duration_text(judged.elapsed_s)}{clock}: {tally}")
    )
    for label, command in commands(judged):
        out.print(Text(f"{label:<11}{command}", style="bold"))
    _print_expectations(out, judged)
    told = _print_changes(out, judged)
    _print_suspects(out, verdict.suspects)
    if verdict.hall is not None:
        out.print(Text("\nThe hall as a whole"))
        for line in hall_lines(verdict.hall):
            _print_wrapped(out, f"  {visible(line)}")
    failed = [_once(reason, verdict.changes, told) for reason in verdict.reasons if not reason.startswith(NOTE)]
    noted = [reason.removeprefix(NOTE) for reason in verdict.reasons if reason.startswith(NOTE)]
    if verdict.outcome is Outcome.PASS:
        failed, noted = [], [*failed, *noted]
    for title, reasons in (("What did not pass", failed), ("Also noted", noted)):
        if reasons:
            out.print(Text(f"\n{title}"))
        for reason in reasons:
            _print_wrapped(out, f"  {reason}")
    if is_known(verdict.training) and verdict.training is not None:
        out.print()
        _print_wrapped(out, f"Means   {impact_line(verdict.training)}")
    if verdict.suspects and verdict.suspects[0].probes:
        out.print(Text(f"\nOutput  fabric report {judged.path} --probe {verdict.suspects[0].probes[0]}"))
    out.print(Text(f"{'' if verdict.suspects else chr(10)}Judged  by {', '.join(judged.judged_by)}"))
    out.print(Text(f"Run     {judged.path}"))
    out.print(Text(f"Again   {judged.again}"))
    out.print(Text(f"Look    fabric report {judged.path} --open"))


def _hosts(scenario: Scenario) -> str:
    return f"{counted(len(scenario.hosts), 'host')} ({fold(scenario.hosts)})"


def _print_expectations(out: Console, judged: JudgedRun) -> None:
    expectations = judged.verdict.expectations
    if not expectations:
        return
    out.print(Text("\nExpected (ratios with 95 % interval)"))
    for found, line, reason in expectation_rows(expectations):
        out.print(Text.assemble("  ", (f"{found.outcome.name:<12}", _STYLE[found.outcome]), f"  {visible(line)}"))
        step = after_expectation(found, judged.path, complete=judged.complete, goes_on=judged.goes_on)
        for below in filter(None, (reason, f"next: {step}" if step else "")):
            _print_wrapped(out, f"{' ' * 16}{below}")


def _print_changes(out: Console, judged: JudgedRun) -> frozenset[str]:
    """Print what became of the changes; returns the lines, so that nothing below says them again."""
    verdict = judged.verdict
    if not verdict.changes:
        return frozenset()
    out.print(Text("\nChanges"))
    state = {"complete": judged.complete, "goes_on": judged.goes_on}
    lines = list(change_lines(verdict.changes, verdict.effects, run=judged.path, **state))
    for line in lines:
        _print_wrapped(out, f"  {line}")
    return frozenset(line.strip() for line in lines)


def _once(reason: str, changes: Sequence[ChangeResult], told: AbstractSet[str]) -> str:
    """What did not pass, without the reason of a change that stands above in *told* already."""
    for change in changes:
        if change.reason in told:
            reason = reason.replace(f"{change.state}: {change.reason}", f"{change.state} (see Changes)")
    return reason


def _print_wrapped(out: Console, text: str) -> None:
    for line in wrapped(visible(text)):
        out.print(Text(line))


def _print_suspects(out: Console, suspects: tuple[Suspect, ...]) -> None:
    if not suspects:
        return
    out.print(Text(f"\n{counted(len(suspects), 'suspect')}"))
    for number, suspect in enumerate(suspects[:_MOST_SUSPECTS], start=1):
        out.print(
            Text.assemble(
                f"{number:>3}. ",
                (suspect.component, "bold"),
                f"  {suspect.kind}  ",
                (suspect.outcome.name, _STYLE[suspect.outcome]),
                f"  confidence {how_sure(suspect)}",
            )
        )
        for line in evidence(suspect):
            _print_wrapped(out, f"       {line}")
        if suspect.ambiguous_with:
            _print_wrapped(out, f"       cannot be told apart from: {', '.join(suspect.ambiguous_with)}")
        _print_wrapped(out, f"       next: {suspect.next_step}")
    if len(suspects) > _MOST_SUSPECTS:
        out.print(Text(f"     and {len(suspects) - _MOST_SUSPECTS} more: see verdict.json"))


def show_plan(
    plan: Plan,
    out: Console,
    *,
    scenario: Scenario,
    notes: Sequence[str] = (),
    settings: ChangeSettings | None = None,
) -> None:
    """What is altered first of all; then phases, probes, rounds, the busiest host, and the expected duration."""
    out.print(Text(f"{scenario.name} on {_hosts(scenario)}"))
    for line in warning_lines(plan, settings, scenario.allow):
        out.print(Text(f"  {visible(line)}", style="bold"))
    for rounds in folded_rounds(plan.phases):
        phase = rounds.first
        needs = f"  (only hosts that passed {', '.join(phase.phase.needs)})" if phase.phase.needs else ""
        out.print(Text(f"\n  {rounds.title}{needs}"))
        for line in _work_lines(phase):
            out.print(Text(f"    {line}"))
        if len(rounds.members) > 1:
            out.print(Text(f"    (of {phase.phase.name}; the others have the same probes with other partners)"))
        for line in phase_lines(phase.changes):
            out.print(Text(f"    {visible(line)}"))
        for note in phase.notes:
            out.print(Text(f"    {NOTE}{note.removeprefix(NOTE)}"))
    if notes:
        out.print()
    for note in notes:
        out.print(Text(f"  note: {visible(note)}"))
    out.print(Text(f"\n  {counted(plan.probes, 'probe')}, expected on hardware: {duration_text(plan.duration_s)}"))


def _work_lines(phase: PhasePlan) -> Iterator[str]:
    """How many probes, in how many rounds, and who is busiest; of a phase without probes only that it has none."""
    planned = phase.schedule
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in phase.probes_by_kind.items())
    yield f"{counted(planned.probes, 'probe')}{f': {kinds}' if kinds else ''}"
    if not planned.probes:
        return
    ratio = planned.makespan_s / planned.lower_bound_s if planned.lower_bound_s else 1.0
    yield (
        f"{counted(planned.rounds, 'round')}, {duration_text(planned.makespan_s)}; no schedule is shorter than "
        f"{duration_text(planned.lower_bound_s)} ({ratio:.2f}x), the work of {planned.busiest_claim}"
    )
    host, probes, work_s = phase.busiest_host
    if host:
        yield f"busiest host: {host}, {counted(probes, 'probe')}, {duration_text(work_s)} if run one by one"
