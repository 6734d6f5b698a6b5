"""``fabric report``, ``analyze``, ``verify``, ``history`` and ``compare``: runs that are over."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import (
    PATH,
    WholeNumber,
    act_option,
    answer,
    json_option,
    print_json,
    print_lines,
    results_option,
)
from fabric.errors import ConfigError, StoreError, ToolError
from fabric.report.output import say, visible, warn
from fabric.runs.run_directory import run_path

if TYPE_CHECKING:
    from fabric.ports import Nodes
    from fabric.report.shown_run import ShownRun


@click.command("report")
@click.argument("run", required=False, type=PATH)
@click.option("--probe", metavar="ID", help="Print what the commands of this probe printed, instead.")
@click.option("--html", is_flag=True, help="Make report.html, junit.xml, metrics.prom and summary.md again.")
@click.option("--open", "open_it", is_flag=True, help="The same, and show report.html in a browser.")
@click.option("--figures", type=PATH, metavar="DIR", help="Write every figure as PNG and SVG into DIR, instead.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every measurement as CSV, instead.")
@click.option("--certificate", is_flag=True, help="Make certificate.json, its digest and its page, instead.")
@click.option("--key", type=PATH, help="With --certificate: sign it with this OpenSSH key.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of verdict.json, instead.")
@act_option
@json_option
def report_command(
    run: Path | None,
    probe: str | None,
    *,
    html: bool,
    open_it: bool,
    figures: Path | None,
    as_csv: bool,
    certificate: bool,
    key: Path | None,
    schema: bool,
    act: str | None,
    as_json: bool,
) -> int:
    """
    Show the verdict of RUN (a run directory, or results/<scenario> for its newest run), as the run was judged when it
    ended.

    Changes nothing unless told to make files again.
    """
    instead = {
        "--schema": schema,
        "--certificate": certificate or key is not None,
        "--probe": probe is not None,
        "--csv": as_csv,
        "--figures": figures is not None,
        "--html": html or open_it,
    }
    asked = [option for option, given in instead.items() if given]
    if len(asked) + as_json > 1:
        raise click.UsageError(f"one at a time: {' and '.join([*asked, *['--json'] * as_json])}")
    if schema:
        from fabric.report.verdict_json import verdict_schema

        print_json(verdict_schema())
        return 0
    if run is None:
        raise click.UsageError("which run? Name its directory: results/<scenario>/latest")
    run = run_path(run)
    if act is not None and asked:
        raise click.UsageError("--act goes with the verdict alone: leave out what is made or printed instead")
    if certificate or key is not None:
        return _certify(run, key)
    if probe is not None:
        from fabric.app.analyze import raw_output

        print_lines(line.expandtabs() for line in raw_output(run, probe).splitlines())
        return 0
    if as_csv:
        return _print_csv(run)
    if figures is not None:
        return _drawn(run, figures)
    if html or open_it:
        return _made(run, open_it=open_it)
    from fabric.app.analyze import analyze

    _tell_who_is_at_work(run)
    found = analyze(run)
    nodes = nodes_for(act, found.judged.backend)
    code = show(found, as_json=as_json)
    act_on(run, nodes)
    return code


def nodes_for(act: str | None, backend: str) -> Nodes | None:
    """Whose nodes are told of a verdict; what cannot be told is refused before anything is measured or printed."""
    if act is None:
        return None
    if backend == "mock":
        raise ConfigError.at("--act", "the run is simulated: no real host is drained")
    from fabric.app.scheduler import nodes_of

    return nodes_of(act)


def act_on(run: Path, nodes: Nodes | None) -> None:
    """Tell the scheduler of a run's verdict, and on stderr what came of it; the exit code stays that of the run."""
    from fabric.app.scheduler import act

    if nodes is None:
        return
    try:
        for line in act(run, nodes=nodes):
            warn(visible(f"{nodes.name.lower()}: {line}"))
    except (StoreError, ToolError) as exc:
        warn(visible(f"{nodes.name.lower()}: nothing was done: {exc}"))


def _tell_who_is_at_work(run: Path) -> None:
    """A run that goes on looks like one that was interrupted: said first, and on stderr."""
    from fabric.runs.run_lock import running

    if (holder := running(run)) is not None:
        until_now = "below is what was measured until now"
        warn(visible(f"{run} is going on ({holder.text}): {until_now}; see: fabric status {run}"))


def _certify(run: Path, key: Path | None) -> int:
    from fabric.app.verify import make_certificate
    from fabric.report.certificate import EXIT_CODES

    path, result = make_certificate(run, key=key)
    say(f"{result}: {path}")
    return EXIT_CODES[result]


def show(run: ShownRun, *, as_json: bool) -> int:
    """Print a judged run and give its exit code; of a post-repair validation the decision."""
    from fabric.app.analyze import decided
    from fabric.report.decision import acceptance_document, acceptance_text, decided_exit_code
    from fabric.report.verdict_json import verdict_document
    from fabric.report.verdict_text import print_coloured, verdict_text

    judged, decision = run.judged, decided(run)
    code = decided_exit_code(judged.verdict, decision)
    if as_json:
        more = {} if decision is None else {"acceptance": acceptance_document(decision)}
        print_json({**verdict_document(judged), "exit_code": code, **more})
    elif decision is not None:
        say(acceptance_text(decision, judged.verdict.suspects, path=judged.path))
    else:
        print_coloured(verdict_text(judged))
    return code


def _print_csv(path: Path) -> int:
    from fabric.app.analyze import load
    from fabric.report.exports import csv_lines

    for lines in csv_lines(load(path).samples):
        say(lines)
    return 0


def _drawn(path: Path, folder: Path) -> int:
    from fabric.app.analyze import draw_figures, reopened

    written = draw_figures(reopened(path), folder)
    say("\n".join(str(one) for one in written) if written else "nothing to draw: nothing was measured")
    return 0


def _made(path: Path, *, open_it: bool) -> int:
    """The reports of a run that is judged again."""
    from fabric.app.analyze import make_reports, reopened

    page = make_reports(reopened(path))
    say(str(page))
    if open_it:
        click.launch(str(page.resolve()))  # where there is no browser, the path was printed
    return 0


@click.command("analyze")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=PATH)
@click.option("--baseline", type=PATH, help="Judge by this baseline file instead.")
@json_option
def analyze_command(runs: tuple[Path, ...], baseline: Path | None, *, as_json: bool) -> int:
    """
    Judge RUN (a run directory, or results/<scenario> for its newest) again.

    Rewrites what is derived, never what was measured. Several, of one scenario on hosts apart (parts of a fleet), are
    judged together as one run, and nothing is written.
    """
    if len(runs) > 1:
        from fabric.app.together import judged_together

        return show(judged_together([run_path(run) for run in runs], baseline_path=baseline), as_json=as_json)
    from fabric.app.analyze import analyze

    return show(analyze(run_path(runs[0]), baseline_path=baseline, rewrite=True), as_json=as_json)


@click.command("verify")
@click.argument("file", type=PATH)
@click.option("--key", type=PATH, help="It must be signed with this key (its .pub file).")
@json_option
def verify_command(file: Path, key: Path | None, *, as_json: bool) -> int:
    """
    Is the certificate FILE true? Makes all of it again from the run's files beside it.

    Exit 0: it is; 1: it says something else, a file was changed or added, or the signature is not what it should be; 3:
    it cannot be told (the files are not here, another version made it).
    """

    from fabric.app.verify import verify

    found = verify(file, key=key)
    word = "NOT TRUE" if found.problems else "NOT TOLD" if found.open else "OK"
    lines = [f"{word}: {found.certificate} says {found.result} of {found.run}"]
    lines += [f"  {text}" for text in (*found.problems, *found.open, *found.notes)]
    return answer({**asdict(found), "exit_code": found.exit_code}, lines, as_json=as_json, code=found.exit_code)


DAYS_MOST = 36_500
"""For --days: a century (a choice); more would begin before the calendar does."""


@click.command("history")
@click.argument("component", required=False)
@results_option
@click.option("--days", type=WholeNumber(1, DAYS_MOST), help="Only runs of the last so many days.")
@click.option(
    "--import",
    "imports",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Also count what others wrote down: sacct -X -P, sacctmgr -P show event, tickets (CSV), kernel messages.",
)
@json_option
def history_command(
    component: str | None, results: Path, days: int | None, imports: tuple[Path, ...], *, as_json: bool
) -> int:
    """Every run as COMPONENT (a host, or a part: gpu003/mlx5_2) saw it, and the hosts in trouble again and again."""

    from fabric.app.history import history
    from fabric.model.history import SIGNALS
    from fabric.report.several_runs import history_text

    found = history(results, component=component, days=days, imports=imports)
    code = 3 if found.closed else 0  # not all that is there was told
    document = asdict(found) if as_json else {}
    for row, one in zip(document.get("signals", ()), found.signals, strict=False):
        row.update(values=dict(zip(SIGNALS, one.values, strict=True)), lemon=one.lemon)
    return answer({"format": 1, **document}, [history_text(found)], as_json=as_json, code=code)


@click.command("compare")
@click.argument("first", metavar="RUN_A", type=PATH)
@click.argument("second", metavar="RUN_B", type=PATH)
@click.option("--hosts", metavar="SET", help="Compare only what is among these hosts: gpu[001-004].")
@json_option
def compare_command(first: Path, second: Path, *, hosts: str | None, as_json: bool) -> int:
    """
    Compare RUN_B with RUN_A, before and after: what became better, what worse, by component.

    A RUN is a run directory, or results/<scenario> for its newest.

    Exit 0 the same or better, 1 worse, 3 it cannot be told, also where one run measured what the other did not.
    """
    from fabric.app.compare import compare
    from fabric.report.several_runs import EXIT_CODES, compare_document, compare_text

    first, second = run_path(first), run_path(second)
    comparison, notes = compare(first, second, hosts=hosts)
    compared = (str(first), str(second), comparison, notes)
    return answer(
        compare_document(*compared), [compare_text(*compared)], as_json=as_json, code=EXIT_CODES[comparison.change]
    )
