"""``fabric watch``, ``status``, ``gate``, ``stop`` and ``restore``: a run that goes on, or does not any more."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabric.cli.options import (
    PATH,
    WholeNumber,
    act_option,
    answer,
    json_option,
    metrics_options,
    results_option,
)
from fabric.model.text import duration_text
from fabric.report.output import columns, jsonable, say, visible, warn

if TYPE_CHECKING:
    from fabric.app.status import RunStatus, Watched


_SIGNS: dict[str, tuple[str, dict[str, Any]]] = {
    "out": ("x", {"fg": "magenta"}),
    "failed": ("F", {"fg": "red", "bold": True}),
    "slow": ("s", {"fg": "yellow"}),
    "running": ("o", {"fg": "cyan"}),
    "well": (".", {"fg": "green"}),
    "waiting": (" ", {}),
}
"""By state of a host: a sign, so that no meaning hangs on colour alone."""

_GROUP = 8  # hosts between two gaps of the map


@click.command("watch")
@click.argument("run", required=False, type=PATH)
@results_option
@click.option("--every", "every_s", type=WholeNumber(1, 3600), default=2, show_default=True, metavar="SECONDS")
@metrics_options
def watch_command(run: Path | None, results: Path, every_s: int, port: int | None, address: str) -> int:
    """
    Watch RUN until it ends: phases, hosts, bad parts, changes, time left.

    Without RUN it is the one below --results that goes on, or else the newest.

    Works from any machine that sees its files; writes nothing. Without a terminal it prints one screen, and with
    --metrics-port serves until the run ends.
    """
    from fabric.app.status import Watched, newest

    run = run or newest(results)
    watched = Watched(run)
    if port is not None:
        from fabric.app.live_metrics import live_metrics, serve

        serve(live_metrics(run), port, address)
    if sys.stdout.isatty():
        _live(watched, every_s)
    else:
        for _ in _looks(watched, every_s) if port is not None else ():
            pass  # it is served until the run ends
        say(click.unstyle("\n".join(screen(watched.look(), width=100))))
    return 0


def _looks(watched: Watched, every_s: float) -> Iterator[RunStatus]:
    """One after the other until the run ends, or somebody interrupts."""
    with suppress(KeyboardInterrupt):
        while (seen := watched.look()).state in ("running", "stopping"):
            yield seen
            threading.Event().wait(every_s)
        yield seen


def _live(watched: Watched, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        for seen in _looks(watched, every_s):
            lines = screen(seen, width=console.width)[: max(4, console.height - 1)]
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)


def screen(seen: RunStatus, *, width: int) -> list[str]:
    """The lines of one look, the most urgent first, with colours: a sign for each host in the order of the scenario."""
    from fabric.report import templates

    counts = Counter(state.value for state in seen.hosts.values())
    text = templates.text(
        "watch.txt.j2",
        it=seen,
        signs={name: templates.styled(sign, **style) for name, (sign, style) in _SIGNS.items()},
        counts=", ".join(f"{sign!r} {counts[name]:,} {name}" for name, (sign, _) in _SIGNS.items() if counts[name]),
        per_line=max(1, (width - 12) // (_GROUP + 1)) * _GROUP,
        group=_GROUP,
    )
    return text.splitlines()


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
    from fabric.report import templates

    if run is not None:
        found = status(run)
        lines = templates.text("status.txt.j2", it=found, outcome=_outcome(found)).splitlines()
        return answer(jsonable(found), lines, as_json=as_json)
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
    from fabric.report import templates

    found = stop(run, wait_s=0.0 if no_wait else float(wait_s))
    code = 0 if no_wait else found.exit_code
    lines = templates.text("stopped.txt.j2", it=found, waited=not no_wait).splitlines()
    return answer({**asdict(found), "exit_code": code}, lines, as_json=as_json, code=code)


def _outcome(found: RunStatus) -> str:
    """A repaired host's run is told by its decision; one without a verdict died while it judged, or judges now."""
    if found.state == "ended" and not found.judged:
        return "being judged" if found.holder else "not judged yet"
    return f"{found.decision} ({found.outcome})" if found.decision else found.outcome


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
