"""``fabric``: click parses, the app does.

Exit 0 good, 1 the fabric failed, 2 your input is wrong, 3 not measured, 4 a change may still be live.
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from fabric.errors import ConfigError, FabricError, MayBeLive, OutOfMemory, StoreError, out_of_memory
from fabric.report.output import visible, warn

GROUPS = {
    "Measure": {
        "check": ("check", "Look before you measure: does every host have what a scenario needs?"),
        "plan": ("plan", "Show what a scenario would run, and for how long."),
        "run": ("run", "Run a scenario and judge it."),
        "watch": ("status", "Watch a run: phases, hosts, bad parts, changes, time left."),
        "status": ("status", "How far a run is, or all runs at a glance."),
        "stop": ("status", "End a run from anywhere; its changes are taken back."),
        "resume": ("run", "Go on with a run that was killed, interrupted or stopped."),
    },
    "Break on purpose, and take it back": {
        "restore": ("status", "Take back every change that a run left behind."),
        "simulate": ("plan", "Ask the simulated network what-if: traffic, routing, faulty links."),
        "lab": ("lab", "A real fabric in a box: network namespaces, BGP, real bytes on shaped links."),
    },
    "Judge": {
        "report": ("report", "Show the verdict of a run, or make its report.html, figures, CSV, certificate."),
        "analyze": ("report", "Judge an old run again, with today's code or another baseline."),
        "verify": ("report", "Check a certificate: is it true, who signed it, which file was changed?"),
        "baseline": ("baseline", "Record what good runs measured, beside the limits, and compare."),
        "diagnose": ("diagnose", "Name the bad part from pair results of any tool."),
        "hang": ("diagnose", "Name the rank that a hung training job waits for, and what to test now."),
        "parse": ("diagnose", "Read the output of nccl-tests or perftest."),
    },
    "Repair": {
        "compare": ("report", "Compare two runs: before and after a repair, a firmware, a setting."),
    },
    "Fleet": {
        "monitor": ("monitor", "Watch the ports of a fleet at work: errors, flaps, traffic that stops."),
        "gate": ("status", "May a job begin on a host? What the newest run said of it, for Slurm's prolog."),
        "history": ("report", "All runs as one history, and the hosts in trouble again and again."),
        "inventory": ("check", "Make an inventory of what is there, show one, or its schema."),
    },
}
"""Every command by what it is for: the file of this room that it is in, and what it does."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

_INSTALL = "install what fabric needs: python -m pip install fabric-testbench (from its source: pip install -e .)"


COLLECTED = 100_000, 50, 100
"""So seldom garbage is looked for: a plan, and a large run that is judged, are millions of objects that live as long as
their command, and to look through them again and again takes a third of the CPU (measured)."""

LEAST_BYTES = 2 << 30
"""Address space below which nothing that measures or judges is begun: a self-check of 8 hosts takes 1.4 GiB, most of it
reserved by Arrow and never touched (measured)."""

_FRUGAL = frozenset({"restore", "stop", "inventory"})
"""Commands that need no such library: what takes changes back is never refused."""

_LIGHT = frozenset({"status", "gate", "watch", "report", "parse", "plan", "hang"})
"""Commands that do with less (600 MB: measured), as long as OpenBLAS has one thread."""


class _Lazy(click.Group):
    """Imports a command's module only when it is asked for: ``fabric --help`` must be instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own keeps what it let go: 57 MiB (measured)
        _settle_memory(cmd_name)
        command = getattr(import_module(f"fabric.cli.{COMMANDS[cmd_name][0]}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()], col_max=12)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Say the nearest word when a command is misspelt."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from fabric.model.fields.wording import nearest

            hint = nearest(args[0], COMMANDS) or f"; there are: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="fabric-testbench", prog_name="fabric", message="%(prog)s %(version)s")
def main() -> None:
    """
    Burn-in, post-repair validation and resilience drills for GPU cluster networks.

    \b
    Begin here:       fabric run scenarios/self-check.yaml        (simulated; no hardware is touched)
    A new rack:       fabric run scenarios/burn-in.yaml --inventory my-rack.yaml --for 24h
    After a repair:   fabric run scenarios/post-repair.yaml --because results/burn-in/RUN
    Break something:  fabric run scenarios/ar-under-ber.yaml

    Exit 0: good, 1: the fabric is bad, 2: your file or command line is wrong, 3: not measured, 4: a change may be live.
    """


def run() -> None:
    """Entry point: every failure ends in one clear message and its exit code, never in a traceback."""
    gc.set_threshold(*COLLECTED)
    try:
        code = main(standalone_mode=False) or 0
    except SystemExit as exc:
        code = exc.code
    except BaseException as exc:  # noqa: BLE001 - the last line of the command line
        code = _explained(exc)
    sys.exit(code)


def _explained(exc: BaseException) -> int:
    """As ``_explain``; where not even that finds memory, the least that can be said."""
    exc.with_traceback(None)  # what every frame on the way held may go
    try:
        return _explain(exc)
    except MemoryError:
        live = type(exc).__name__ == "MayBeLive"
        os.write(2, b"A CHANGE MAY STILL BE LIVE, and memory is out\n" if live else b"error: out of memory\n")
        return 4 if live else 3


def _settle_memory(command: str) -> None:
    """
    Where address space is limited, load first what cannot fail in order when it is short: before anything is begun.

    OpenBLAS, in numpy and in scipy, then ends a process with exit code 1, or never answers again. Raises OutOfMemory
    below what is known to be needed.
    """
    from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

    allowed = getrlimit(RLIMIT_AS)[0]
    if allowed == RLIM_INFINITY or command in _FRUGAL or {"-h", "--help"} & set(sys.argv):
        return
    if allowed < LEAST_BYTES and command not in _LIGHT:
        least = f"{LEAST_BYTES >> 20:,} MiB of address space"
        raise OutOfMemory(f"out of memory: {allowed >> 20:,} MiB are allowed, {least} are needed: raise ulimit -v")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else it takes 40 MiB of it for each processor
    for name in ("numpy", "scipy.special"):
        with suppress(ModuleNotFoundError):
            import_module(name)


def _explain(exc: BaseException) -> int:
    """Say what went wrong, on stderr and for who asked for JSON on stdout; returns the exit code."""

    problems: list[str] = []
    if isinstance(exc, ConfigError):
        code, problems = 2, [str(problem) for problem in exc.problems]
        text = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    elif isinstance(exc, click.exceptions.NoArgsIsHelpError):
        warn(exc.ctx.get_help() if exc.ctx is not None else "see 'fabric --help'")
        return 2
    elif isinstance(exc, click.ClickException):
        code, text = 2, f"{exc.format_message()} (see '{_asked(exc)} --help')"
    elif isinstance(exc, click.Abort | KeyboardInterrupt):
        code, text = 3, "interrupted"
    elif isinstance(exc, MayBeLive):
        code, text = 4, f"A CHANGE MAY STILL BE LIVE: {exc}"
    elif isinstance(exc, FabricError):
        code, text = 3, f"error: {exc}"
    else:
        code, text = 3, _of_others(exc)
    _say_json(text, code, problems)
    for problem in problems:
        warn(visible(problem))
    warn(visible(text))
    return code


def _of_others(exc: BaseException) -> str:
    """What to say of an error that is not raised on purpose."""

    if isinstance(exc, PermissionError) and exc.filename:
        return f"error: {exc.filename}: {exc.strerror}"
    package = (exc.name or "").partition(".")[0] if isinstance(exc, ModuleNotFoundError) else ""
    if package not in ("", "fabric"):
        return f"error: the Python package {package} is not installed here; {_INSTALL}"
    if short := out_of_memory(exc):
        return f"error: {short}"
    return f"internal error: {type(exc).__name__}: {exc} (a defect of fabric, please report it)"


def _asked(exc: click.ClickException) -> str:
    """The command that was called, ``fabric baseline record``; ``fabric`` where it is not known."""
    ctx = exc.ctx if isinstance(exc, click.UsageError) else None
    return ctx.command_path if ctx is not None else "fabric"


def _say_json(error: str, exit_code: int, problems: Sequence[str]) -> None:
    """Who asked for JSON gets one document on stdout also when things go wrong."""
    if "--json" not in sys.argv:
        return
    from fabric.cli.options import print_json

    with suppress(StoreError):
        print_json({"error": error, "problems": problems, "exit_code": exit_code})
