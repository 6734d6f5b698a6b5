"""``fabric monitor``: the ports of a fleet, while others use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fabric.cli.options import (
    PATH,
    Time,
    answer,
    json_option,
    metrics_address_option,
    metrics_port_option,
    print_lines,
)
from fabric.report.output import jsonable, warn

if TYPE_CHECKING:
    from fabric.app.monitor import Alarm, FleetSeen, Monitor


@click.command("monitor")
@click.option("--inventory", type=PATH, required=True, help="The fleet.")
@click.option("--hosts", metavar="SET", default="all", show_default=True, help="Only these: gpu[001-004].")
@click.option("--backend", metavar="NAME", help="mock, ssh or process; default: what the inventory says.")
@click.option("--fault", "faults", multiple=True, metavar="COMPONENT:KIND[=FACTOR]", help="Mock: break something.")
@click.option("--every", "every_s", type=Time(1, 3600), default="1s", show_default=True, metavar="TIME")
@click.option("--for", "lasts_s", type=Time(1, 366 * 86_400), metavar="TIME", help="How long; else until Ctrl-C.")
@metrics_port_option
@metrics_address_option
@json_option
def monitor_command(
    inventory: Path,
    hosts: str,
    backend: str | None,
    faults: tuple[str, ...],
    every_s: float,
    lasts_s: float | None,
    port: int | None,
    address: str,
    *,
    as_json: bool,
) -> int:
    """
    Watch the ports of a fleet while others use it: errors, links that go down, traffic that declines or stops.

    Alters nothing. A line an alarm, judged as a run judges its ports; a host that does not answer holds nobody up.
    Exit 1 a port is bad, 3 a host was not read.
    """
    from fabric.app.live_metrics import FleetMetrics, serve
    from fabric.app.monitor import Monitor
    from fabric.app.prepare import hosts_named
    from fabric.config.inventory import load_inventory
    from fabric.errors import ConfigError
    from fabric.wiring import make_executor

    found = load_inventory(inventory, extra_faults=faults)
    name = backend or found.backend
    if name == "mock" and lasts_s is None:
        raise ConfigError.at("--for", "on simulated hosts time flies: say how long, --for 10m")
    if name != "mock" and faults:
        raise ConfigError.at("--fault", f"faults are for the mock backend, not for {name}")
    names, say = hosts_named(hosts, found), _to(warn if as_json else None)
    with closing(make_executor(name, found)) as executor:
        monitor = Monitor(found, names, executor, every_s=every_s, say=say)
        with closing(monitor):
            if port is not None:
                serve(FleetMetrics(found.name, lambda: monitor.seen), port, address)
            seen = monitor.run(lasts_s)
    return answer(_document(monitor, seen), _closing(seen), as_json=as_json, code=seen.exit_code)


def _to(said: Callable[[str], None] | None) -> Callable[[Alarm], None]:
    """A line an alarm; beside a JSON document on standard error."""
    from fabric.app.monitor import shown_parts

    def say(one: Alarm) -> None:
        word = one.outcome.name if one.outcome.value != "pass" else "-"
        line = f"{one.at:%Y-%m-%d %H:%M:%S}  {word:12}  {shown_parts(one.parts)}  {one.said}"
        (said or (lambda text: print_lines([text])))(line)

    return say


def _closing(seen: FleetSeen) -> Iterator[str]:
    from fabric.app.monitor import closing_line

    yield closing_line(seen)


def _document(monitor: Monitor, seen: FleetSeen) -> dict[str, object]:
    return {**jsonable(seen), "last_alarms": jsonable(list(monitor.alarms)), "exit_code": seen.exit_code}
