"""``fabric watch``: a run that goes on, on one screen of a terminal."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import PATH, WholeNumber, results_option
from fabric.model.text import duration_text, fold
from fabric.report.output import counted, say, visible

if TYPE_CHECKING:
    from rich.text import Text

    from fabric.app.status import RunStatus, Watched

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
@click.option(
    "--metrics-port",
    "port",
    type=WholeNumber(1, 65_535),
    metavar="PORT",
    help="Also serve it as OpenMetrics.",
)
@click.option(
    "--metrics-address",
    "address",
    default="127.0.0.1",
    show_default=True,
    metavar="IP",
    help="Where; 0.0.0.0 for all interfaces.",
)
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
        from fabric.app.live_metrics import serve

        serve(run, port, address)
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
