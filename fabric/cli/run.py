"""``fabric run`` and ``fabric resume``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabric.cli.options import (
    PATH,
    WholeNumber,
    act_option,
    json_option,
    reserve_option,
    results_option,
    scenario_options,
    taking,
)
from fabric.cli.plan import asked_for
from fabric.cli.report import act_on, nodes_for, show
from fabric.engine.interruption import interrupt_on_signals
from fabric.errors import ConfigError
from fabric.model.outcome import Outcome
from fabric.report.output import visible, warn
from fabric.wiring import make_executor

if TYPE_CHECKING:
    from fabric.app.prepare import Asked, Given
    from fabric.app.run import OnFail
    from fabric.plan import Plan
    from fabric.report.shown_run import ShownRun
    from fabric.runs.run_document import PastRun


_HOOK_FIELDS = (
    "format",
    "minor",
    "scenario",
    "run_id",
    "path",
    "backend",
    "outcome",
    "exit_code",
    "reasons",
    "suspects",
)
"""Of verdict.json, what ``--on-fail`` is told: who is to be repaired, not each probe."""


_how_it_is_run = taking(
    reserve_option,
    act_option,
    click.option(
        "--on-fail",
        metavar="CMD",
        help="Told of the first failure (a slow part: when its phase ends), and of the verdict if it is FAIL: JSON "
        "on standard input.",
    ),
    click.option("--yes", is_flag=True, help="Alter a real fabric without asking."),
    click.option("--no-html", is_flag=True, help="Leave out report.html, junit.xml, metrics.prom and summary.md."),
    json_option,
)
"""How a run is carried out, and who is told."""


@click.command("run")
@scenario_options
@results_option
@click.option("--seed", type=WholeNumber(0, 2**63 - 1), default=1, show_default=True, help="Mock: seed of its noise.")
@_how_it_is_run
def run_command(
    given: Given,
    backend: str | None,
    results: Path,
    seed: int,
    *,
    because: Path | None,
    quick: bool,
    links: str | None,
    yes: bool,
    **how: Any,
) -> int:
    """Run SCENARIO, judge it, name the bad part; the exit code says how it ended."""
    from fabric.app.prepare import backend_of, refuse_unguarded
    from fabric.app.run import run
    from fabric.config.baselines import out_of_reach_line

    interrupt_on_signals()  # what runs on hosts is ended, what was measured is kept
    asked = asked_for(given, because=because, quick=quick, links=links)
    name = backend_of(asked.inventory, backend, given.faults)
    refuse_unguarded(asked.scenario, name)
    executor = make_executor(name, asked.inventory, seed)  # what is wrong with it is told before anything is written
    _tell(out_of_reach_line(asked.scenario, asked.inventory, asked.baselines))
    for line in asked.warnings:
        _tell(line)
    if name != "mock" and _agree(asked.plan, yes=yes):
        asked = replace(asked, given=replace(asked.given, yes=True))

    measure = partial(run, asked, backend=name, executor=executor, results=results, seed=seed, say=_tell)
    return _carried_out(measure, asked, results, name, **how)


@click.command("resume")
@click.argument("run", type=PATH)
@click.option(
    "--force", is_flag=True, help="Go on as it was asked then, though files, parts or this tool have changed."
)
@_how_it_is_run
def resume_command(run: Path, *, force: bool, yes: bool, **how: Any) -> int:
    """
    Go on with RUN (a run directory, or results/<scenario> for its newest), which was killed, interrupted or stopped.

    What it may have left on the fabric is taken back first; finished probes are kept, half-done ones begin again.
    """
    from fabric.app.resume import look, resume
    from fabric.config.baselines import out_of_reach_line

    interrupt_on_signals()
    past, differs = look(run, force=force)
    for text in differs:
        _say(f"gone on all the same: {text}")
    _tell(out_of_reach_line(past.scenario, past.inventory, past.baselines))
    if past.backend != "mock":
        _agree(past.plan, yes=yes)

    measure = partial(resume, past, make_executor=make_executor, say=_say, force=force)
    return _carried_out(measure, past, past.path.parent.parent, past.backend, **how)


def _progress_arguments(run: Asked | PastRun, hook: OnFail | None, results: Path) -> dict[str, Any]:
    """What the progress knows of hosts, and whom it tells of the first failure while the run goes on."""
    from fabric.judge.verdict.probes import Judge

    addresses = {host.name: host.address for host in run.inventory.topology.hosts.values()}
    if hook is None:
        return {"addresses": addresses}
    names = {"scenario": run.scenario.name, "results": str(results)}
    judge = Judge(run.baselines, run.scenario.judge, run.inventory.topology)
    return {
        "addresses": addresses,
        "failed": lambda part, why: hook.first({**names, "part": part, "reason": why}),
        "ended": lambda plan, done: hook.judged(judge, plan, done, names),
    }


def _carried_out(
    measure: Callable[..., ShownRun],
    asked: Asked | PastRun,
    results: Path,
    backend: str,
    *,
    as_json: bool,
    no_html: bool,
    on_fail: str | None,
    act: str | None,
    reserve: bool,
) -> int:
    """
    Measured, shown, and told to those who are to hear of it: the scheduler first, for jobs begin meanwhile, and while
    the hosts are reserved.
    """
    from fabric.app.run import OnFail
    from fabric.app.scheduler import Reservation, minutes
    from fabric.report.progress import ConsoleProgress
    from fabric.report.verdict_json import verdict_document

    hook = None if on_fail is None else OnFail(on_fail, _tell)
    nodes = nodes_for(act, backend)
    if reserve and backend == "mock":
        raise ConfigError.at("--reserve", "the run is simulated: no real host is reserved")
    if reserve:
        minutes(asked.plan)  # refuses what could not run, before anything is begun
    with Reservation(_say) if reserve else nullcontext() as reservation:
        with ConsoleProgress(quiet=as_json, **_progress_arguments(asked, hook, results)) as progress:
            found = measure(observer=progress, reports=not no_html, reservation=reservation)
        code, judged = show(found, as_json=as_json), found.judged
        act_on(Path(judged.path), nodes)
    if hook is not None and judged.verdict.outcome is Outcome.FAIL:
        hook.end({name: value for name, value in verdict_document(judged).items() if name in _HOOK_FIELDS})
    return code


def _say(text: str) -> None:
    """On standard error, where it is in nobody's way."""
    warn(visible(text))


def _tell(note: str | None) -> None:
    if note is not None:
        _say(f"note: {note}")


def _agree(plan: Plan, *, yes: bool) -> bool:
    """Nobody alters a real fabric by accident: a person says yes, or the command line does; True where that had to."""

    changes = [change for phase_plan in plan.phases for change in phase_plan.changes]
    if not changes or yes:
        return bool(changes)
    if not sys.stdin.isatty():
        raise ConfigError.at("--yes", f"{len(changes)} changes would alter a real fabric: say --yes")
    for change in changes:
        click.echo(visible(f"{change.phase}: {change.kind} on {change.component} ({change.scope})"), err=True)
    click.confirm("Alter the fabric like this?", abort=True, err=True)
    return False
