"""``fabric watch``, ``status``, ``gate``, ``stop`` and ``restore``: a run that goes on, or does not any more."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    metrics_address_option,
    metrics_port_option,
    results_option,
)
from fabric.model.text import duration_text, fold
from fabric.report.output import columns, counted, jsonable, say, visible, warn

if TYPE_CHECKING:
    from rich.text import Text

    from fabric.app.status import RunStatus, StoppedRun, Watched


_SIGNS = {
    "out": ("x", "magenta"),
    "failed": ("F", "bold red"),
    "slow": ("s", "yellow"),
    "running": ("o", "cyan"),
    "well": (".", "green"),
    "waiting": (" ", ""),
}
"""By state of a host: a sign, so that no meaning hangs on colour alone."""

_GROUP = 8  # hosts between two gaps of the map
_BAR = 24
_MOST_PHASES, _MOST_PARTS, _MOST_CHANGES = 6, 6, 4


@click.command("watch")
@click.argument("run", required=False, type=PATH)
@results_option
@click.option("--every", "every_s", type=WholeNumber(1, 3600), default=2, show_default=True, metavar="SECONDS")
@metrics_port_option
@metrics_address_option
def watch_command(run: Path | None, results: Path, every_s: int, port: int | None, address: str) -> int:
    """
    Watch RUN (default: the newest below --results) until it ends: phases, hosts, bad parts, changes, time left.

    Works from any machine that sees its files; writes nothing. Without a terminal it prints one screen, and with
    --metrics-port serves until the run ends.
    """
    from fabric.app.status import Watched

    run = run or newest(results)
    watched = Watched(run)
    if port is not None:
        from fabric.app.live_metrics import LiveMetrics, serve

        serve(LiveMetrics(run), port, address)
    if not sys.stdout.isatty():
        if port is not None:
            _wait(watched, every_s)
        say("\n".join(str(line).rstrip() for line in screen(watched.look(), width=100)))
        return 0
    _live(watched, every_s)
    return 0


def newest(results: Path) -> Path:
    """The newest run below a results folder; ConfigError where there is none."""
    from fabric.errors import ConfigError
    from fabric.runs.run_directory import run_folders

    runs = run_folders(results).runs
    if not runs:
        raise ConfigError.at(results, "no run here yet")
    return max(runs, key=lambda path: (path.name, path.parent.name))


def _wait(watched: Watched, every_s: float) -> None:
    """Until it ends, or somebody interrupts."""
    with suppress(KeyboardInterrupt):
        while watched.look().state in ("running", "stopping"):
            threading.Event().wait(every_s)


def _live(watched: Watched, every_s: float) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    console, pause = Console(highlight=False), threading.Event()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen = watched.look()
            lines = list(screen(seen, width=console.width))
            live.update(Group(*lines[: max(4, console.height - 1)]), refresh=True)
            if seen.state not in ("running", "stopping"):
                return
            try:
                pause.wait(every_s)
            except KeyboardInterrupt:
                return


def screen(seen: RunStatus, *, width: int) -> Iterator[Text]:
    """The lines of one look, the most urgent first."""
    from rich.text import Text

    share = f"{100 * seen.done // seen.planned} %" if seen.planned else "nothing planned yet"
    left = "" if seen.left_s is None else f", about {duration_text(seen.left_s)} left"
    yield Text(visible(f"{seen.scenario}: {seen.state}  {seen.run}"), style="bold")
    yield Text(f"{seen.done:,} of {counted(seen.planned, 'probe')} ({share}), {duration_text(seen.at_s)} in{left}")
    for change in seen.open_changes[:_MOST_CHANGES]:
        yield Text(visible(f"CHANGED  {change}"), style="bold magenta")
    if len(seen.open_changes) > _MOST_CHANGES:
        yield Text(f"         and {len(seen.open_changes) - _MOST_CHANGES} more changes")
    yield from _parts(seen)
    yield Text("")
    yield from _phases(seen)
    yield Text("")
    yield from _map(seen, width)


def _parts(seen: RunStatus) -> Iterator[Text]:
    """The verdict's suspects, once there is one; until then what tools called bad, and who is out."""
    from rich.text import Text

    said = [f"suspect  {one.component}  {one.kind}  {one.confidence:.0%}" for one in seen.suspects or ()]
    if not said:
        said = [f"bad      {name}: {counted(many, 'probe')} failed" for name, many in seen.named.items()]
    yield from (Text(visible(text), style="red") for text in said[:_MOST_PARTS])
    if len(said) > _MOST_PARTS:
        yield Text(f"         and {len(said) - _MOST_PARTS} more")
    for name, why in list(seen.out.items())[:_MOST_PARTS]:
        yield Text(visible(f"out      {name}: {why}"), style="magenta")
    if len(seen.out) > _MOST_PARTS:
        yield Text(f"         and {len(seen.out) - _MOST_PARTS} more are out")


def _phases(seen: RunStatus) -> Iterator[Text]:
    """The last of them, each with a bar."""
    from rich.text import Text

    if len(seen.phases) > _MOST_PHASES:
        yield Text(f"{len(seen.phases) - _MOST_PHASES} phases before these are over")
    for phase in seen.phases[-_MOST_PHASES:]:
        part = min(1.0, phase.done / phase.planned) if phase.planned else 1.0
        bar = "#" * int(_BAR * part) + "-" * (_BAR - int(_BAR * part))
        bad = (f", {phase.failed} failed" if phase.failed else "") + (
            f", {phase.errors} errors" if phase.errors else ""
        )
        end = ", over" if phase.over else ""
        yield Text(visible(f"{phase.name:20.40} [{bar}] {phase.done:,} of {phase.planned:,}{bad}{end}"))


def _map(seen: RunStatus, width: int) -> Iterator[Text]:
    """A sign for each host, in the order of the scenario; below it who is not well, by name."""
    from rich.text import Text

    names = list(seen.hosts)
    per_line = max(1, (width - 12) // (_GROUP + 1)) * _GROUP
    for first in range(0, len(names), per_line):
        line = Text.assemble((f"{visible(names[first])[:10]:10} ", "dim"))
        for number, name in enumerate(names[first : first + per_line]):
            sign, style = _SIGNS[seen.hosts[name].value]
            line.append(" " if number and number % _GROUP == 0 else "")
            line.append(sign, style=style)
        yield line
    counts = Counter(state.value for state in seen.hosts.values())
    yield Text(", ".join(f"{sign!r} {counts[name]:,} {name}" for name, (sign, _) in _SIGNS.items() if counts[name]))
    for state in ("failed", "slow", "out"):
        mine = [name for name, found in seen.hosts.items() if found.value == state]
        if mine:
            yield Text(visible(f"{state:8} {fold(mine)}"))


WAIT_S = 600
"""Default for --timeout: taking changes back takes at most a lease and its checks, a probe's end seconds (a choice)."""

_OF_EACH = (
    *("run", "scenario", "state", "outcome", "phase", "done", "planned", "rate_per_min", "left_s", "event_age_s"),
    *("resumed", "holder", "open_changes", "trouble", "judged", "no_number", "decision"),
)
"""What is told of each of many runs; of one run its hosts, phases and suspects as well."""

_HEADS = ("run", "state", "outcome", "phase", "probes", "last event")


@click.command("status")
@click.argument("run", required=False, type=PATH)
@results_option
@click.option("--last", type=WholeNumber(1, 100_000), default=20, show_default=True, help="How many, without RUN.")
@json_option
def status_command(run: Path | None, results: Path, last: int, *, as_json: bool) -> int:
    """How far RUN is, from its files alone; without one all runs under --results, newest first."""
    from fabric.app.status import all_runs, status

    if run is not None:
        found = status(run)
        return answer(jsonable(found), _lines(found), as_json=as_json)
    runs = all_runs(results, most=last)
    code = 3 if any(one.state == "unreadable" for one in runs) else 0  # not all that is there was told
    document = {"runs": [jsonable(one, _OF_EACH) for one in runs]} if as_json else {}
    return answer(document, _table(runs), as_json=as_json, code=code)


@click.command("gate")
@click.argument("host", required=False)
@results_option
@click.option("--days", type=WholeNumber(1, 10_000), default=14, show_default=True, help="Older runs say nothing.")
@act_option
@json_option
def gate_command(host: str | None, results: Path, days: int, *, act: str | None, as_json: bool) -> int:
    """
    May a job begin on HOST (default: this one, as Slurm or the system names it)? What the newest run said of it.

    Measures nothing. Exit 0 it may (good, or MARGINAL: --act drains it after the job), 1 it has a bad part, 3 no run
    tells.
    """
    import os
    import platform

    from fabric.app.scheduler import drain, nodes_of, standing
    from fabric.model.outcome import Outcome

    name = host or os.environ.get("SLURMD_NODENAME") or platform.node().partition(".")[0]
    found = standing(name, results, days=days)
    code = {Outcome.PASS: 0, Outcome.MARGINAL: 0, Outcome.FAIL: 1}.get(found.outcome, 3)
    if act is not None and found.outcome in (Outcome.FAIL, Outcome.MARGINAL):
        nodes = nodes_of(act)
        warn(visible(f"{nodes.name.lower()}: {drain(found, results, nodes=nodes)}"))
    where = f" ({found.run})" if found.run else ""
    line = f"{found.outcome.name}  {name}: {found.why}{where}"
    return answer({**jsonable(found), "exit_code": code}, [line], as_json=as_json, code=code)


@click.command("stop")
@click.argument("run", type=PATH)
@click.option("--no-wait", is_flag=True, help="Ask, and do not wait until it has ended.")
@click.option("--timeout", "wait_s", type=WholeNumber(1, 86_400), default=WAIT_S, show_default=True, metavar="SECONDS")
@json_option
def stop_command(run: Path, wait_s: int, *, no_wait: bool, as_json: bool) -> int:
    """
    End RUN, which goes on in another terminal or on another machine: probes first, then its changes, with read-back.

    Exit 0 it has ended, 3 not yet, 4 a change may still be live.
    """

    from fabric.app.status import stop

    found = stop(run, wait_s=0.0 if no_wait else float(wait_s))
    code = 0 if no_wait else found.exit_code
    lines = _stopped_lines(found, waited=not no_wait)
    return answer({**asdict(found), "exit_code": code}, lines, as_json=as_json, code=code)


def _stopped_lines(found: StoppedRun, *, waited: bool) -> Iterator[str]:
    if not found.ended:
        how = f"not ended after {found.took_s:.0f} s" if waited else "asked to stop"
        yield f"{found.run}: {how}; see: fabric status {found.run}"
        return
    end = "it had reached its own end" if found.finished else f"to go on: {found.go_on}"
    yield f"{found.run}: ended after {found.took_s:.1f} s; {end}"
    for name in found.taken_back:
        yield f"taken back   {name}"
    for name in found.still_open:
        yield f"MAY BE LIVE  {name}; fabric restore {found.run}"


def _lines(found: RunStatus) -> Iterator[str]:

    by = f" ({found.holder})" if found.holder else ""
    yield f"{found.run}: {found.state}{by}{f', {outcome}' if (outcome := _outcome(found)) else ''}"
    if found.phase:
        yield f"phase      {found.phase}"
    share = f" ({100 * found.done // found.planned} %)" if found.planned else ""
    yield f"probes     {found.done:,} of {found.planned:,}{share}"
    if found.rate_per_min is not None:
        left = f", about {duration_text(found.left_s)} left" if found.left_s is not None else ""
        yield f"rate       {found.rate_per_min:,.0f} probes a minute{left}"
    if found.event_age_s is not None:
        yield f"last event {duration_text(max(0.0, found.event_age_s))} ago"
    if found.resumed:
        yield f"resumed    {counted(found.resumed, 'time')}"
    for name in found.open_changes:
        yield f"OPEN       {name}"
    if found.no_number:
        yield f"no number  from {counted(found.no_number, 'probe')}: see fabric report"
    if found.suspects is None:
        yield f"suspects   too many probes to judge at a look: fabric {_teller(found)} {found.run} judges them"
    suspects = found.suspects or ()
    for suspect in suspects[:10]:
        yield f"suspect    {suspect.component}  {suspect.kind}  {suspect.outcome.name}  {suspect.confidence:.0%}"
    if len(suspects) > 10:
        yield f"           and {len(suspects) - 10} more"
    yield from _next(found)


def _outcome(found: RunStatus) -> str:
    """A repaired host's run is told by its decision; one without a verdict died while it judged, or judges now."""
    if found.state == "ended" and not found.judged:
        return "being judged" if found.holder else "not judged yet"
    return f"{found.decision} ({found.outcome})" if found.decision else found.outcome


def _teller(found: RunStatus) -> str:
    """The command that judges it: while it goes on nothing is written."""
    return "report" if found.holder else "analyze"


def _next(found: RunStatus) -> Iterator[str]:
    if found.state in ("killed", "interrupted"):
        yield f"next       {found.go_on}"
    elif found.state == "ended" and (found.judged or found.holder):
        yield f"next       fabric report {found.run}"
    elif found.state == "ended":
        yield f"next       fabric analyze {found.run}"
    if found.open_changes and found.state not in ("running", "stopping"):
        yield f"next       fabric restore {found.run}"


def _table(runs: Sequence[RunStatus]) -> Iterator[str]:
    yield from columns([_HEADS, *(_row(one) for one in runs)])
    if not runs:
        yield "no runs"


def _row(one: RunStatus) -> tuple[str, ...]:

    age = "" if one.event_age_s is None else f"{duration_text(max(0.0, one.event_age_s))} ago"
    state = f"{one.state}: {one.trouble}" if one.trouble else one.state
    state += f", {len(one.open_changes)} OPEN" if one.open_changes else ""
    return one.run, state, _outcome(one), one.phase, f"{one.done:,}/{one.planned:,}", age


@click.command("restore")
@click.argument("run", required=False, type=PATH)
@results_option
@click.option("--all-hosts", is_flag=True, help="Ask the guards on every host of --inventory instead of a journal.")
@click.option(
    "--inventory",
    type=PATH,
    help="How to reach hosts: with --all-hosts, or a RUN without run.json.",
)
@click.option(
    "--backend", metavar="NAME", help="With --inventory: mock, ssh, slurm, process; default: the inventory's."
)
@json_option
def restore_command(
    run: Path | None, results: Path, inventory: Path | None, backend: str | None, *, all_hosts: bool, as_json: bool
) -> int:
    """Take back what RUN (a run directory), or every run under --results, may have left on the fabric."""
    from fabric.app.restore import in_order, restore, restore_hosts
    from fabric.report.changes import restored_json, restored_lines
    from fabric.wiring import make_executor

    wrong = {
        "--all-hosts needs --inventory FILE": all_hosts and inventory is None,
        "--inventory needs a RUN, or --all-hosts": inventory is not None and not all_hosts and run is None,
        "--backend needs --inventory FILE": backend is not None and inventory is None,
        "give either a run or --all-hosts": all_hosts and run is not None,
    }
    for text in (text for text, found in wrong.items() if found):
        raise click.UsageError(text)
    where = f"in {run}" if run is not None else f"under {results.absolute()}"
    if inventory is None and run is None and not results.is_dir():
        raise click.UsageError(f"{results.absolute()} is no folder of runs: give a run, or --results")
    with in_order(warn):
        if all_hosts and inventory is not None:
            where = f"on the hosts of {inventory}"
            found = restore_hosts(inventory, backend=backend, make_executor=make_executor)
        else:
            found = restore(
                run, results=results, make_executor=make_executor, inventory_path=inventory, backend=backend
            )
    code = 0 if all(one.certain for one in found) else 4
    lines = restored_lines(found) if found else [f"no change is open {where}"]
    if code:
        lines = [*lines, "A change may still be live: see above; run it again, or undo it by hand."]
    return answer({"changes": restored_json(found), "exit_code": code}, lines, as_json=as_json, code=code)
