"""Options that several commands share, spelt once."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click

from fabric.report.output import say, visible

PATH = click.Path(path_type=Path)


class Number(click.ParamType[float]):
    """A number of an option, within bounds (both are allowed), read as a key of a file is."""

    name = "number"
    read_as = "scalars:Decimal"
    """The type of such a key; pydantic takes a while to import, and ``--help`` does without."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; click's refusal, with what is expected, for anything else."""
        from pydantic_core import PydanticCustomError

        field = resolve_name(f"fabric.model.fields.{self.read_as}")(self.least, self.most)
        try:
            return field.parse(str(value))
        except PydanticCustomError as exc:
            self.fail(exc.message(), param, ctx)


class WholeNumber(Number):
    """A whole number in plain digits."""

    read_as = "scalars:Whole"


class Time(Number):
    """A duration such as 90m, in seconds, which may have a fraction as all seconds."""

    read_as = "scalars:Duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As ``Number``."""
        return float(super().convert(value, param, ctx))


_OVERRIDES = (
    click.option("--inventory", type=PATH, help="Use this inventory file instead."),
    click.option("--hosts", metavar="SET", help="Only these hosts: gpu[001-004], all."),
    click.option("--slurm-job", metavar="ID", help="Only the hosts of this Slurm job."),
    click.option("--reservation", metavar="NAME", help="Only the hosts of this Slurm reservation."),
    click.option("--selector", metavar="LABELS", help="Only the hosts that are Kubernetes nodes with these labels."),
    click.option("--backend", metavar="NAME", help="mock, ssh, slurm or process; default: what the inventory says."),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="COMPONENT:KIND[=FACTOR]",
        help="Mock: break something, e.g. gpu003/mlx5_2:slow=0.5, gpu004:hanging. May be repeated.",
    ),
    click.option(
        "--for",
        "lasts_s",
        type=Time(1, 30 * 86_400),
        metavar="TIME",
        help="How long the whole run lasts, for phases with a share of it: 48h.",
    ),
)
_REPAIR = (
    click.option("--because", type=PATH, metavar="RUN", help="After a repair: the run that failed."),
    click.option("--quick", is_flag=True, help="With --because: ten minutes, and nothing said of bit errors."),
    click.option(
        "--links", metavar="LIST", help="With --because: leaves, spines or cables (leaf1--spine2), not hosts."
    ),
)


def taking(*options: Callable[..., Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """All of these options, told by ``--help`` in this order."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def overrides(function: Callable[..., int]) -> Callable[..., int]:
    """What ``check``, ``plan`` and ``run`` let a command line say of a scenario, the same for all."""

    @wraps(function)
    def command(
        *, hosts: str | None, slurm_job: str | None, reservation: str | None, selector: str | None, **named: Any
    ) -> int:
        if [hosts, slurm_job, reservation, selector].count(None) < 3:
            words = "--hosts, --slurm-job, --reservation and --selector"
            raise click.UsageError(f"{words} each say which hosts: give one")
        if slurm_job is not None or reservation is not None:
            from fabric.app.scheduler import hosts_of

            hosts = hosts_of(job=slurm_job, reserved=reservation)
        if selector is not None:
            from fabric.hosts.kubernetes import KubernetesNodes

            hosts = ",".join(KubernetesNodes().selected(selector))
        return function(hosts=hosts, **named)

    return taking(*_OVERRIDES)(command)


def scenario_options(function: Callable[..., int]) -> Callable[..., int]:
    """The scenario file and what overrides it as one ``Given``, *backend*, and what is said of a repair."""

    @wraps(function)
    def command(**named: Any) -> int:
        from fabric.app.prepare import Given

        words = ("scenario", "inventory", "hosts", "faults", "lasts_s")
        return function(Given(**{name: named.pop(name) for name in words}), **named)

    return click.argument("scenario", type=PATH)(overrides(taking(*_REPAIR)(command)))


results_option = click.option("--results", type=PATH, default=Path("results"), show_default=True)
"""Where the runs lie."""

act_option = click.option(
    "--act",
    type=click.Choice(["drain", "cordon"]),
    help="Drain (Slurm) or cordon (Kubernetes) hosts with a bad part, give back those that --because accepts.",
)
"""What is done with the verdict."""

reserve_option = click.option(
    "--reserve", is_flag=True, help="Slurm: reserve the hosts for the planned time and a margin; given back at the end."
)
"""Whether no job may begin on the hosts meanwhile."""

metrics_options = taking(
    click.option(
        "--metrics-port", "port", type=WholeNumber(1, 65_535), metavar="PORT", help="Also serve it as OpenMetrics."
    ),
    click.option(
        "--metrics-address",
        "address",
        default="127.0.0.1",
        show_default=True,
        metavar="IP",
        help="Where; 0.0.0.0 for all interfaces.",
    ),
)
"""Where Prometheus may scrape what goes on."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
"""One JSON document on stdout and nothing else there."""


def print_json(document: object) -> None:
    """Print a JSON document, indented, UTF-8."""
    import orjson

    say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with what is hostile in them made harmless; one may hold several."""

    say("\n".join(visible(part) for line in lines for part in line.split("\n")))


def answer(document: object, lines: Iterable[str], *, as_json: bool, code: int = 0) -> int:
    """Print a document for who asked for JSON, lines for everybody else; the exit code."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)
    return code
