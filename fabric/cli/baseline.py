"""``fabric baseline``."""

import sys
from pathlib import Path

import click

from fabric.cli.options import PATH, answer, json_option, print_lines
from fabric.errors import ConfigError

WRONG_FILE = 2
"""Exit code: a limit that the recorded parts do not meet is a mistake in the file."""


_baselines_option = click.option(
    "--baselines",
    type=PATH,
    default=Path("inventory/baselines"),
    show_default=True,
    metavar="DIR",
    help="Where the baseline files lie.",
)


@click.group("baseline")
def baseline_command() -> None:
    """Record what good runs measured, beside the limits, and compare."""


@baseline_command.command("record", short_help="Make a candidate from runs that passed.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--as", "name", metavar="NAME", help="The baseline it is meant for, where the runs hold several.")
@click.option(
    "--output", "--out", "out", type=PATH, help="The candidate file. Default: NAME.candidate.yaml beside the first RUN."
)
@json_option
def record(runs: tuple[Path, ...], name: str | None, out: Path | None, *, as_json: bool) -> int:
    """
    Make a candidate from runs that passed; nothing is judged by it until it is accepted.

    A RUN is a run directory, or results/<scenario> for its newest.
    """
    from fabric.app.baseline import record_runs
    from fabric.report.several_runs import recorded_lines, too_few_lines

    found = record_runs(runs, name=name, out=out)
    document = {"name": found.candidate.name, "file": str(found.file), "keys": len(found.candidate.recorded)}
    last = (f"Written  {found.file}", f"Accept   fabric baseline accept {found.file}")
    lines = (*recorded_lines(found.candidate.recorded), *too_few_lines(found.too_few), *last)
    return answer(document, lines, as_json=as_json)


@baseline_command.command("accept", short_help="Write a candidate into its baseline file.")
@click.argument("candidate", type=PATH)
@_baselines_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--lower", is_flag=True, help="Let recorded medians sink.")
@click.option("--simulated", is_flag=True, help="Accept numbers of the mock backend, to try it out.")
def accept(candidate: Path, baselines: Path, *, yes: bool, lower: bool, simulated: bool) -> int:
    """Write a candidate into its baseline file; only the section 'recorded:' changes."""
    from fabric.app.baseline import accept as accept_baseline
    from fabric.app.baseline import prepare_update
    from fabric.report.several_runs import change_lines

    update = prepare_update(candidate, baselines=baselines, lower=lower, simulated=simulated)
    print_lines(change_lines(update.changes))
    if update.kept:
        print_lines((f"{update.kept} other keys stay as they are",))
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError.at("--yes", f"{update.file} would be changed: say --yes")
        click.confirm(f"Judge by these from now on ({update.file})?", abort=True, err=True)
    accept_baseline(update)
    print_lines((f"Written  {update.file}",))
    return 0


@baseline_command.command("show")
@click.argument("name")
@_baselines_option
@json_option
def show(name: str, baselines: Path, *, as_json: bool) -> int:
    """Show the limits and records of a baseline."""
    from fabric.app.baseline import named_baseline
    from fabric.report.several_runs import baseline_document, baseline_lines

    baseline = named_baseline(name, baselines=baselines)
    return answer(baseline_document(baseline), baseline_lines(baseline), as_json=as_json)


@baseline_command.command("check", short_help="Hold the limits against what was recorded.")
@click.argument("name")
@_baselines_option
@json_option
def check(name: str, baselines: Path, *, as_json: bool) -> int:
    """Hold the limits against what was recorded; exit 2 when good parts do not meet a limit."""
    from fabric.app.baseline import named_baseline
    from fabric.judge.normal.baseline import fit_notes

    notes = fit_notes(named_baseline(name, baselines=baselines))
    code = WRONG_FILE if any(wrong for wrong, _ in notes) else 0
    document = {"exit_code": code, "notes": [{"wrong": wrong, "text": text} for wrong, text in notes]}
    lines = [f"{'wrong' if wrong else 'note '}  {text}" for wrong, text in notes] or ["limits and records fit"]
    return answer(document, lines, as_json=as_json, code=code)
