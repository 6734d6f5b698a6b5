"""``fabric monitor``: the ports of a fleet, while others use it."""

from contextlib import closing
from pathlib import Path

import click

from fabric.cli.options import (
    PATH,
    Time,
    answer,
    json_option,
    metrics_options,
    print_lines,
)
from fabric.report.output import jsonable, warn


@click.command("monitor")
@click.option("--inventory", type=PATH, required=True, help="The fleet.")
@click.option("--hosts", metavar="SET", default="all", show_default=True, help="Only these: gpu[001-004].")
@click.option("--backend", metavar="NAME", help="mock, ssh or process; default: what the inventory says.")
@click.option("--fault", "faults", multiple=True, metavar="COMPONENT:KIND[=FACTOR]", help="Mock: break something.")
@click.option("--every", "every_s", type=Time(1, 3600), default="1s", show_default=True, metavar="TIME")
@click.option("--for", "lasts_s", type=Time(1, 366 * 86_400), metavar="TIME", help="How long; else until Ctrl-C.")
@metrics_options
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
    from fabric.app.live_metrics import fleet_metrics, serve
    from fabric.app.monitor import Alarm, Monitor, alarm_line, closing_line
    from fabric.app.prepare import backend_of, hosts_named
    from fabric.config.inventory import load_inventory
    from fabric.errors import ConfigError
    from fabric.wiring import make_executor

    found = load_inventory(inventory, extra_faults=faults)
    name = backend_of(found, backend, faults)
    if name == "mock" and lasts_s is None:
        raise ConfigError.at("--for", "on simulated hosts time flies: say how long, --for 10m")
    names = hosts_named(hosts, found)

    def say(one: Alarm) -> None:
        if as_json:  # which is alone on standard output
            warn(alarm_line(one))
        else:
            print_lines([alarm_line(one)])

    with closing(make_executor(name, found)) as executor:
        monitor = Monitor(found, names, executor, every_s=every_s, say=say)
        with closing(monitor):
            if port is not None:
                serve(fleet_metrics(found.name, lambda: monitor.seen), port, address)
            seen = monitor.run(lasts_s)
    document = {**jsonable(seen), "last_alarms": jsonable(list(monitor.alarms)), "exit_code": seen.exit_code}
    return answer(document, [closing_line(seen)], as_json=as_json, code=seen.exit_code)
